//! A network with a DHCP server: a bridge of a test node, and the server in a namespace of it.

use std::fs::{self, File};
use std::path::PathBuf;

use harness::waiting::wait_for;
use harness::{
    Background, Call, DHCP_RENEWER, DNSMASQ, Flavour, Node, Output, Sandbox, executable,
};
use serde_json::{Value, json};

/// The words of dnsmasq for DHCP.
pub(crate) const V4: &[&str] = &[
    "--dhcp-range=10.1.0.50,10.1.0.60,10m",
    "--dhcp-option=option:router,10.1.0.1",
    "--dhcp-option=option:dns-server,10.1.0.2",
    "--dhcp-option=option:domain-search,a.example,b.example",
    "--dhcp-option=option:mtu,1400",
];

/// The network: `lan0` on the node, and the server's side with 10.1.0.1 and fd00:1::1.
pub(crate) struct Lan {
    pub(crate) node: Node,
    pub(crate) sandbox: Sandbox,
}

impl Lan {
    pub(crate) fn new() -> Self {
        Self::on(Node::new())
    }

    pub(crate) fn on(node: Node) -> Self {
        node.sh("ip netns add server
             ip link add lan-server type veth peer name eth0 netns server
             ip link set lan-server up
             ip -n server addr add 10.1.0.1/24 dev eth0
             ip -n server addr add fd00:1::1/64 dev eth0 nodad
             ip -n server link set lo up
             ip -n server link set eth0 up");
        let sandbox = Sandbox::default()
            .with_network_plugins(Flavour::Normal)
            .with_reference("dhcp");
        let lan = Self { node, sandbox };
        lan.connect();
        // Kea ignores an interface that has no carrier yet.
        wait_for(|| {
            lan.node
                .sh("ip -n server link show dev eth0")
                .contains("state UP")
        });
        lan
    }

    /// Creates `lan0`, with the server behind it.
    pub(crate) fn connect(&self) {
        self.node.sh("ip link add lan0 type bridge
             ip link set lan-server master lan0
             ip link set lan0 up");
    }

    /// Creates an interface of the node that is connected with the network.
    pub(crate) fn plug_in(&self, name: &str) {
        self.node.sh(&format!(
            "ip link add {name} type veth peer name {name}-lan
             ip link set {name}-lan master lan0 up
             ip link set {name} up"
        ));
    }

    /// A file of the sandbox.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.sandbox.root().join(name)
    }

    /// A file's content; empty if it isn't there.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Starts a command on the node, whose output is appended to this file.
    pub(crate) fn start(&self, words: &[&str], log: &str) -> Background {
        let mut command = self.node.command(words[0]);
        Background::start(command.args(&words[1..]), &self.file(log))
    }

    /// Starts a server with these words, which is ready when its log has this text once more.
    pub(crate) fn serve(&self, words: &[&str], ready: &str) -> Background {
        let count = || self.text("server.log").matches(ready).count();
        let before = count();
        let inside = [&["ip", "netns", "exec", "server"], words].concat();
        let server = self.start(&inside, "server.log");
        wait_for(|| count() > before);
        server
    }

    /// Starts dnsmasq with these ranges and options; its leases are in `leases`.
    pub(crate) fn dnsmasq(&self, options: &[&str]) -> Background {
        let leases = format!("--dhcp-leasefile={}", self.file("leases").display());
        let words = [
            DNSMASQ,
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--user=root",
            "--pid-file",
            "--port=0",
            "--interface=eth0",
            "--bind-interfaces",
            "--no-ping",
            "--log-dhcp",
            "--log-facility=-",
            &leases,
        ];
        let last = "sockets bound exclusively to interface";
        self.serve(&[&words, options].concat(), last)
    }

    /// Starts ISC's server, with leases of this many seconds in `isc.leases`.
    pub(crate) fn isc(&self, seconds: u32) -> Background {
        let config = format!(
            "default-lease-time {seconds}; max-lease-time {seconds}; authoritative;
             subnet 10.1.0.0 netmask 255.255.255.0 {{
               range 10.1.0.50 10.1.0.60; option routers 10.1.0.1;
             }}"
        );
        fs::write(self.file("isc.conf"), config).unwrap();
        let leases = self.file("isc.leases");
        File::options()
            .append(true)
            .create(true)
            .open(&leases)
            .unwrap();
        let [config, leases] =
            [self.file("isc.conf"), leases].map(|path| path.display().to_string());
        let words = [
            "-4", "-f", "-d", "--no-pid", "-cf", &config, "-lf", &leases, "eth0",
        ];
        self.serve(
            &[&["/usr/sbin/dhcpd"], &words[..]].concat(),
            "Server starting service",
        )
    }

    /// Starts Kea for a family, with leases of this many seconds.
    pub(crate) fn kea(&self, family: u8, seconds: u32) -> Background {
        let (subnet, pool) = match family {
            4 => ("10.1.0.0/24", "10.1.0.50-10.1.0.60"),
            _ => ("fd00:1::/64", "fd00:1::50-fd00:1::60"),
        };
        let name = format!("kea-dhcp{family}");
        let mut keys = json!({
            "interfaces-config": {"interfaces": ["eth0"]},
            "lease-database": {"type": "memfile", "persist": false},
            "valid-lifetime": seconds,
            "loggers": [{"name": name, "output_options": [{"output": "stdout"}], "severity": "INFO"}],
            (format!("subnet{family}")): [
                {"id": 1, "subnet": subnet, "interface": "eth0", "pools": [{"pool": pool}]}],
        });
        if family == 6 {
            // Kea listens only at a link-local address that is verified.
            let tentative = "ip -n server addr show dev eth0 tentative";
            wait_for(|| self.node.sh(tentative).trim().is_empty());
            keys["server-id"] =
                json!({"type": "EN", "enterprise-id": 32473, "identifier": "AB", "persist": false});
        }
        let file = self.file(&format!("{name}.json"));
        let config = json!({(format!("Dhcp{family}")): keys});
        fs::write(&file, config.to_string()).unwrap();
        let folder = self.sandbox.root().display();
        let variables =
            ["KEA_PIDFILE_DIR", "KEA_LOCKFILE_DIR"].map(|name| format!("{name}={folder}"));
        let [pid, lock] = variables.each_ref();
        let (file, program) = (file.display().to_string(), format!("/usr/sbin/{name}"));
        self.serve(
            &["env", pid, lock, &program, "-c", &file],
            &format!("DHCP{family}_STARTED"),
        )
    }

    /// The configuration of the network `lan`, with these delegates and keys of `ipam`.
    pub(crate) fn config_of(&self, delegates: &[&str], ipam: &Value) -> Value {
        let mut config = self.sandbox.config("1.0.0", delegates, ipam);
        config["name"] = json!("lan");
        config["bridge"] = json!("lan0");
        config
    }

    /// The configuration of the network `lan`, with these keys of `ipam`.
    pub(crate) fn config(&self, ipam: &Value) -> Value {
        self.config_of(&["ipam-da-dhcp"], ipam)
    }

    /// Calls `bridge` for a container.
    pub(crate) fn call(&self, command: &str, container: &str, config: &Value) -> Output {
        let call = self.sandbox.call_main_plugin(command, container, config);
        call.run_on(&self.node)
    }

    /// Calls the chain for a container, as a main plugin that keeps the interface until the DEL of
    /// IPAM has ended.
    pub(crate) fn call_chain(&self, command: &str, container: &str, config: &Value) -> Output {
        let call = self.sandbox.call("ipam-delegated", command, config);
        let call = call.container(container);
        let netns = format!("/run/netns/{container}");
        call.env("CNI_NETNS", netns).run_on(&self.node)
    }

    /// Adds a new container by `bridge`; returns its addresses.
    pub(crate) fn add(&self, container: &str, config: &Value) -> Vec<String> {
        self.node.sh(&format!("ip netns add {container}"));
        self.call("ADD", container, config).ips()
    }

    /// The addresses of a container's interface, as `ip` prints them.
    pub(crate) fn addresses(&self, container: &str) -> String {
        let command = format!("ip -n {container} -o addr show dev eth0 scope global");
        self.node.sh(&command)
    }

    /// The lines of a container's record.
    pub(crate) fn record(&self, container: &str) -> String {
        self.text(&format!("state/lan/{container}:eth0.json"))
    }

    /// Number of times that the server's log has this text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.text("server.log").matches(text).count()
    }

    /// Starts the daemon that renews, and waits until it runs.
    pub(crate) fn renewer(&self) -> Background {
        let started = || self.text("renewer.log").matches("started").count();
        let before = started();
        let program = executable(DHCP_RENEWER, Flavour::Normal)
            .display()
            .to_string();
        let state = self.sandbox.state_dir().display().to_string();
        let words = [&program, "--log=debug", "--state-dir", &state];
        let renewer = self.start(&words, "renewer.log");
        wait_for(|| started() > before);
        renewer
    }

    /// Runs one look of the daemon.
    pub(crate) fn renew_once(&self) -> Output {
        let program = executable(DHCP_RENEWER, Flavour::Normal);
        let state = self.sandbox.state_dir();
        let call = Call::new(program)
            .args(["--once", "--state-dir"])
            .args([state]);
        call.run_on(&self.node)
    }

    /// The seconds after which the kernel removes an address of a container; `None` if it is there
    /// for ever.
    pub(crate) fn lifetime(&self, container: &str) -> Option<u32> {
        let addresses = self.addresses(container);
        let (_, rest) = addresses.split_once("valid_lft ")?;
        rest.split("sec").next()?.parse().ok()
    }

    /// Sets the seconds after which the kernel removes an address of a container.
    pub(crate) fn set_lifetime(&self, container: &str, address: &str, seconds: u32) {
        self.node.sh(&format!(
            "ip -n {container} addr change {address} dev eth0 \
             valid_lft {seconds} preferred_lft {seconds}"
        ));
    }

    /// Makes a container's ADD a long time ago: the daemon doesn't wait for the main plugin then.
    pub(crate) fn make_old(&self, container: &str) {
        let record = self.record(container);
        let (_, at) = record.split_once(r#""at":""#).unwrap();
        let at = at.split('"').next().unwrap();
        let older = record.replacen(at, "2026-01-01T00:00:00Z", 1);
        let file = self.file(&format!("state/lan/{container}:eth0.json"));
        fs::write(file, older).unwrap();
    }
}
