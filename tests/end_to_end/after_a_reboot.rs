//! `"reclaim": "boot"`: what was reserved before the machine's last boot is
//! released when the allocator first runs after it. No machine is rebooted: what
//! the boot is read from is the test's own.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

struct Machine {
    sandbox: Sandbox,
    reclaim: Value,
}

impl Machine {
    fn new(reclaim: Value) -> Self {
        let it = Self {
            sandbox: Sandbox::default().with_reference("host-local"),
            reclaim,
        };
        it.boots("first", SystemTime::now() - Duration::from_secs(1_000_000));
        it
    }

    fn proc(&self) -> PathBuf {
        self.sandbox.root().join("proc")
    }

    /// From now on, this boot is the last.
    fn boots(&self, id: &str, at: SystemTime) {
        let random = self.proc().join("sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), format!("{id}\n")).unwrap();
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let stat = format!("cpu  1 2 3\nintr 4 5 6\nbtime {seconds}\nprocesses 7\n");
        fs::write(self.proc().join("stat"), stat).unwrap();
    }

    /// Makes the reservation an hour older.
    fn ages(&self, ip: &str) {
        let path = self.sandbox.data_dir().join("testnet").join(ip);
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
    }

    fn call(&self, plugin: &str, command: &str, container: &str) -> Output {
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "reclaim": self.reclaim});
        let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
        let config = self.sandbox.config("1.0.0", &delegates, &ipam);
        self.sandbox
            .call(plugin, command, &config)
            .container(container)
            .env("IPAM_DELEGATED_PROC", self.proc())
            .run()
    }

    fn ours(&self, command: &str, container: &str) -> Output {
        self.call("ipam-delegated", command, container)
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("testnet")
    }
}

fn just_now() -> SystemTime {
    SystemTime::now() - Duration::from_secs(60)
}

#[test]
fn the_first_call_after_a_boot_releases_what_is_older() {
    let machine = Machine::new(json!("boot"));
    machine.ours("ADD", "a").result();
    machine.ours("ADD", "b").result();
    machine.ages("10.1.0.2");
    machine.ages("10.1.0.3");
    // Not without a boot.
    machine.ours("ADD", "c").result();
    assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3", "10.1.0.4"]);

    machine.boots("second", just_now());
    let output = machine.ours("ADD", "d");
    assert_eq!(output.ips(), ["10.1.0.5"]);
    assert!(output.stderr.contains("released=2"), "{output:?}");
    // What is younger than the boot stays; so c would, had it come after it.
    assert_eq!(machine.reserved(), ["10.1.0.4", "10.1.0.5"]);

    // And only the first one.
    machine.ages("10.1.0.5");
    machine.ours("DEL", "c").nothing();
    assert_eq!(machine.reserved(), ["10.1.0.5"]);
    machine.boots("third", just_now());
    machine.ours("DEL", "unknown").nothing();
    assert!(machine.reserved().is_empty());
}

#[test]
fn directories_of_host_local_are_understood() {
    needs!("host-local");
    let machine = Machine::new(json!("boot"));
    machine.call("host-local", "ADD", "a").result();
    machine.call("host-local", "ADD", "b").result();
    machine.ages("10.1.0.2");
    machine.boots("second", just_now());
    // It has been used since the boot, before we were.
    machine.call("host-local", "ADD", "c").result();
    machine.ours("ADD", "d").result();
    assert_eq!(machine.reserved(), ["10.1.0.3", "10.1.0.4", "10.1.0.5"]);
}

#[test]
fn torn_files_and_old_ones_without_an_interface_go_too() {
    let machine = Machine::new(json!("boot"));
    let directory = machine.sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    for (ip, content) in [
        ("10.1.0.2", "c1"),
        ("10.1.0.3", ""),
        ("10.1.0.4", "c1\r\neth0"),
    ] {
        fs::write(directory.join(ip), content).unwrap();
        machine.ages(ip);
    }
    fs::write(directory.join("notes"), "keep").unwrap();
    machine.boots("second", just_now());
    machine.ours("DEL", "unknown").nothing();
    assert!(machine.reserved().is_empty());
    assert!(directory.join("notes").exists());
}

#[test]
fn it_is_off_by_default() {
    let machine = Machine::new(Value::Null);
    machine.ours("ADD", "a").result();
    machine.ages("10.1.0.2");
    machine.boots("second", just_now());
    machine.ours("ADD", "b").result();
    assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3"]);
}

#[test]
fn another_value_is_refused_and_an_unknown_boot_is_no_boot() {
    let machine = Machine::new(json!("always"));
    let error = machine.ours("ADD", "a").error();
    assert_eq!(error["code"], 7);
    let msg = error["msg"].as_str().unwrap();
    assert!(
        msg.contains("ipam.reclaim") && msg.contains("\"always\""),
        "{error}"
    );

    let machine = Machine::new(json!("boot"));
    fs::remove_dir_all(machine.proc()).unwrap();
    let output = machine.ours("ADD", "a");
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(
        output.stderr.contains("can't tell the last boot"),
        "{output:?}"
    );
}
