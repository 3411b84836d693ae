//! The shell commands of the manual, run unchanged on a test node.

use harness::{Call, Flavour, Node, PLUGINS, Sandbox, needs};
use serde_json::{Value, json};

use harness::{blocks, document};

/// A container ID like a runtime's. The manual writes `8f3e…`.
const ID: &str = "8f3e52c1a0b9d7e6f5c4b3a2918070605f4e3d2c1b0a99887766554433221100";

/// A node with the plugins in `/opt/cni/bin` and its own conflist.
struct Machine {
    node: Node,
    /// Contains the executables to which the links in `/opt/cni/bin` lead.
    sandbox: Sandbox,
}

/// The node's folder of conflists, because `/etc/cni/net.d` is the machine's.
const CONF_DIR: &str = "/run/net.d";

impl Machine {
    fn new(conflist: &Value) -> Self {
        Self::of(Flavour::Normal, conflist)
    }

    fn of(flavour: Flavour, conflist: &Value) -> Self {
        let node = Node::new();
        node.sh("mount -t tmpfs none /opt; mkdir -p /opt/cni/bin /run/net.d /run/bin");
        let sandbox = Sandbox::new(flavour).with_testdata("ipam-ds-namespace");
        let names = PLUGINS.iter().chain(&["ipam-ds-namespace"]);
        for name in names {
            let plugin = sandbox.plugins().join(name);
            node.sh(&format!("ln -s {} /opt/cni/bin/{name}", plugin.display()));
        }
        let machine = Self { node, sandbox };
        machine.write("/run/net.d/mynet.conflist", &conflist.to_string());
        let tool = machine
            .sandbox
            .ipamctl(&[])
            .executable()
            .display()
            .to_string();
        let script = format!("exec {tool} --conf-dir {CONF_DIR} \"$@\"");
        machine.write_program("ipamctl", &script);
        machine
    }

    /// Writes a file on the node.
    fn write(&self, path: &str, content: &str) {
        let quoted = content.replace('\'', r"'\''");
        self.node.sh(&format!("printf '%s' '{quoted}' > {path}"));
    }

    /// Adds a shell script to `PATH`.
    fn write_program(&self, name: &str, script: &str) {
        let path = format!("/run/bin/{name}");
        self.write(&path, &format!("#!/bin/sh\n{script}\n"));
        self.node.sh(&format!("chmod 755 {path}"));
    }

    /// Runs the commands of a block; returns their output.
    #[track_caller]
    fn run(&self, block: &str) -> String {
        let block = block
            .replace("/etc/cni/net.d", CONF_DIR)
            .replace("8f3e…", ID);
        self.node
            .sh(&format!("cd /run; export PATH=/run/bin:$PATH\n{block}"))
    }

    /// Runs the commands of a block, even after a failure of one; returns their output.
    #[track_caller]
    fn run_whatever(&self, block: &str) -> String {
        let lines: Vec<String> = block
            .lines()
            .map(|line| format!("{line} || true"))
            .collect();
        self.run(&lines.join("\n"))
    }

    /// ADD or DEL of a container on the conflist's network.
    #[track_caller]
    fn call(&self, command: &str, id: &str, config: &Value) -> harness::Output {
        call("ipam-delegated", command, id, config).run_on(&self.node)
    }

    fn exists(&self, path: &str) -> bool {
        self.node.succeeds(&format!("test -e {path}"))
    }
}

/// A call of a plugin in `/opt/cni/bin`.
fn call(plugin: &str, command: &str, id: &str, config: &Value) -> Call {
    Call::new(format!("/opt/cni/bin/{plugin}").into())
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", id)
        .env("CNI_IFNAME", "eth0")
        .env("CNI_NETNS", "/run/netns/c1")
        .env("CNI_PATH", "/opt/cni/bin")
        .stdin(serde_json::to_vec(config).unwrap())
}

/// Converts the plugin's entry of a conflist to a plugin's configuration.
fn request(conflist: &Value) -> Value {
    let mut request = conflist["plugins"][0].clone();
    request["cniVersion"] = conflist["cniVersion"].clone();
    request["name"] = conflist["name"].clone();
    request
}

/// The blocks of a page. Each must either contain a text of `run`, or be in `left_out` with a
/// reason.
fn claimed(page: &str, run: &[&str], left_out: &[(&str, &str)]) -> Vec<String> {
    let blocks = blocks(&document(page), "sh");
    let parts = run.iter().chain(left_out.iter().map(|(part, _)| part));
    let parts: Vec<&&str> = parts.collect();
    for block in &blocks {
        let claims = parts.iter().filter(|part| block.contains(**part)).count();
        assert_eq!(claims, 1, "{page}: run it or say why not:\n{block}");
    }
    for part in parts {
        let found = blocks.iter().any(|block| block.contains(*part));
        assert!(found, "{page} has no command with {part:?}");
    }
    blocks
}

fn with<'a>(blocks: &'a [String], part: &str) -> &'a str {
    blocks.iter().find(|block| block.contains(part)).unwrap()
}

const OPERATIONS: [&str; 5] = [
    "CNI_COMMAND=STATUS",
    "container=8f3e' /var/log",
    "K8S_POD_NAME",
    "ipamctl check",
    "ps -e",
];

#[test]
fn every_command_of_the_operations_page_runs() {
    let left_out = [
        ("sha256sum", "tests/release/installing.rs runs it"),
        ("mv -f", "tests/release/installing.rs runs it"),
        ("sbin/ipamctl", "tests/release/releases.rs looks for it"),
        (
            "dpkg -i",
            "tests/release/package_with_podman.rs installs it",
        ),
        ("cargo xtask install", "it builds the plugins anew"),
        ("until=", "tests/fast/verbose_log.rs runs it"),
    ];
    let blocks = claimed("docs/operations.md", &OPERATIONS, &left_out);
    let block = |part: &str| with(&blocks, part);
    needs!("root", "/bin/ps");
    let conflist: Value = serde_json::from_str(&document("testdata/mynet.conflist")).unwrap();
    let request = request(&conflist);
    let machine = Machine::of(Flavour::Verbose, &conflist);

    assert_eq!(machine.run(block("CNI_COMMAND=STATUS")), "");
    let pod = |name: &str| format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name}");
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let add = call("ipam-delegated", "ADD", ID, &request)
        .env("CNI_ARGS", pod("web-1"))
        .env("TRACEPARENT", format!("00-{trace}-00f067aa0ba902b7-01"));
    let answer = add.run_on(&machine.node).stdout;
    let other = call("ipam-delegated", "ADD", "other", &request).env("CNI_ARGS", pod("web-10"));
    other.run_on(&machine.node).result();
    machine.call("DEL", "other", &request).nothing();
    let found = machine.run(block("K8S_POD_NAME"));
    // An address of each IP version; none of the other pod, whose name begins alike.
    assert_eq!(found.lines().count(), 2, "{found}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let ip = harness::answer_of(&answer).remove(0);
    for part in [format!(" trace={trace} "), format!(": reserved ip={ip} ")] {
        assert!(found.contains(&part), "{found}");
    }
    let lines = machine.run(block("container=8f3e' /var/log"));
    let (of_the_call, of_the_attachment) = lines.split_at(lines.rfind("starting").unwrap());
    for plugin in ["ipam-delegated", "ipam-ds-ranges", "ipam-da-host-local"] {
        let line = format!(" {plugin} trace={trace} ");
        assert!(
            of_the_call.contains(&line) && of_the_attachment.contains(&line),
            "{lines}"
        );
    }

    // A missing main plugin is a finding.
    let said = machine.run_whatever(block("ipamctl check"));
    let has_bridge = said.contains("Nothing is found.");
    assert!(
        has_bridge || said.contains("bridge: no such plugin"),
        "{said}"
    );

    let sleeper = machine
        .node
        .command("sleep")
        .arg("4711")
        .env("IPAM_DELEGATED_DELEGATE", "1-1")
        .spawn();
    let mut sleeper = sleeper.unwrap();
    let running = machine.run(block("ps -e"));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(running.contains("sleep 4711"), "{running}");
    assert!(!running.contains("grep"), "{running}");
}

#[test]
fn a_reservation_that_was_removed_by_hand_leaves_a_record_which_holds_nothing_up() {
    needs!("root");
    let conflist: Value = serde_json::from_str(&document("testdata/mynet.conflist")).unwrap();
    let request = request(&conflist);
    let machine = Machine::new(&conflist);
    let record = format!("/var/lib/cni/ipam-delegated/mynet/{ID}:eth0.json");
    machine.call("ADD", ID, &request).result();
    machine.node.sh("rm /var/lib/cni/networks/mynet/*[.:][0-9]");
    assert!(machine.exists(&record));
    machine.call("DEL", ID, &request).nothing();
    assert!(!machine.exists(&record));
}

#[test]
fn a_delegate_is_tried_by_the_commands_of_its_page() {
    let left_out = [
        ("#!/bin/sh", "tests/fast/documents.rs runs it"),
        ("rustup target add", "it changes the toolchain"),
    ];
    let page = "docs/writing-a-delegate.md";
    let blocks = claimed(page, &["mktemp -d"], &left_out);
    needs!("root");
    let conflist = json!({"cniVersion": "1.0.0", "name": "mynet", "plugins": [{}]});
    let machine = Machine::new(&conflist);
    let printed = machine.run(&format!(
        "export TMPDIR=/run\n{}",
        with(&blocks, "mktemp -d")
    ));
    assert!(printed.contains("10.66.1.0/16"), "{printed}");
    assert!(printed.contains("K8S_POD_NAMESPACE=default"), "{printed}");
    let files: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("/networks/pools/"))
        .map(|line| line.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(files.len(), 2, "{printed}");
    assert!(files.contains(&"lock") && files.contains(&"last_reserved_ip.users"));
    assert!(!machine.exists("/var/lib/cni"));
}

#[test]
fn an_allocator_is_tried_by_the_commands_of_its_page() {
    let page = "docs/writing-an-allocator.md";
    let blocks = claimed(page, &["seq 16"], &[]);
    needs!("root");
    let conflist = json!({"cniVersion": "1.0.0", "name": "mynet", "plugins": [{}]});
    let machine = Machine::new(&conflist);
    let allocator = harness::example("ipam-da-table");
    machine
        .node
        .sh(&format!("ln -s {} /opt/cni/bin/", allocator.display()));
    let printed = machine.run(&format!("export TMPDIR=/run\n{}", blocks[0]));
    let count = |part: &str| printed.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count(" 1 \"address\":\"10.66.0."), 13, "{printed}");
    assert_eq!(count("\"address\""), 13, "{printed}");
    assert_eq!(count("\"code\":11"), 3, "{printed}");
    assert_eq!(printed.lines().last(), Some("[]"), "{printed}");
    assert!(!machine.exists("/var/lib/cni"));
}
