//! `"reclaim": "boot"`: the network's first call after a boot releases its reservations from
//! before the boot. The tests don't reboot: they write the files with the boot's ID and its start.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use harness::{Call, Output, Sandbox, needs};
use serde_json::{Value, json};

struct Machine {
    sandbox: Sandbox,
    reclaim: Value,
    network: &'static str,
    pool: Option<&'static str>,
}

impl Machine {
    fn new(reclaim: Value) -> Self {
        let node = Self {
            sandbox: Sandbox::default().with_reference("host-local"),
            reclaim,
            network: "testnet",
            pool: None,
        };
        node.boots("first");
        node
    }

    fn proc(&self) -> PathBuf {
        self.sandbox.root().join("proc")
    }

    /// Simulates a boot with this ID: empties the folders in memory, and sets a start that is
    /// later than all existing files.
    fn boots(&self, id: &str) {
        self.has_booted(id, 1);
        let _ = fs::remove_dir_all(self.sandbox.cache_dir());
    }

    /// Sets the ID of the boot and its start, in seconds from now.
    fn has_booted(&self, id: &str, from_now: i64) {
        let random = self.proc().join("sys/kernel/random");
        fs::create_dir_all(&random).unwrap();
        fs::write(random.join("boot_id"), format!("{id}\n")).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let start = i64::try_from(now.as_secs()).unwrap() + from_now;
        fs::write(self.proc().join("stat"), format!("btime {start}\n")).unwrap();
    }

    fn last_boot(&self) -> PathBuf {
        self.sandbox.data_dir().join("testnet/last_boot.testnet")
    }

    fn host_local(&self, command: &str, container: &str) -> Output {
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
        let config = self.sandbox.config("1.0.0", &[], &ipam);
        let call = self.sandbox.call("host-local", command, &config);
        call.container(container).run()
    }

    fn ours(&self, command: &str, container: &str) -> Output {
        self.call(command, container).run()
    }

    fn call(&self, command: &str, container: &str) -> Call {
        let mut config = self
            .sandbox
            .config("1.1.0", &[], &json!({"reclaim": self.reclaim}));
        config["name"] = json!(self.network);
        let mut pool = json!({"subnet": "10.1.0.0/24"});
        if let Some(name) = self.pool {
            pool["name"] = json!(name);
        }
        config["prevResult"] = json!({"pools": [pool]});
        let call = self.sandbox.call("ipam-da-host-local", command, &config);
        call.container(container)
            .env("IPAM_DELEGATED_PROC", self.proc())
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved(self.pool.unwrap_or(self.network))
    }
}

#[test]
fn the_first_call_after_a_boot_releases_the_reservations_from_before_it() {
    let machine = Machine::new(json!("boot"));
    machine.ours("ADD", "a").result();
    machine.ours("ADD", "b").result();
    assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3"]);

    machine.boots("second");
    let output = machine.ours("ADD", "c");
    assert_eq!(output.ips(), ["10.1.0.4"]);
    assert!(output.stderr.contains("released=2"), "{output:?}");
    // Only the first call releases reservations.
    let output = machine.ours("ADD", "d");
    assert!(output.stderr.is_empty(), "{output:?}");
    assert_eq!(machine.reserved(), ["10.1.0.4", "10.1.0.5"]);

    machine.boots("third");
    machine.ours("DEL", "unknown").nothing();
    assert!(machine.reserved().is_empty());
}

#[test]
fn neither_a_deleted_cache_nor_a_clock_that_steps_costs_a_live_address() {
    let machine = Machine::new(json!("boot"));
    machine.ours("ADD", "old").result();
    machine.boots("second");
    machine.ours("ADD", "a").result();
    // As on a machine without a hardware clock: the file's time is long ago.
    let file = machine.sandbox.data_dir().join("testnet/10.1.0.3");
    let touched = std::process::Command::new("touch")
        .args(["-d", "1970-01-02"])
        .arg(&file)
        .status();
    assert!(touched.unwrap().success());
    for round in ["b", "c"] {
        fs::remove_dir_all(machine.sandbox.cache_dir()).unwrap();
        machine.ours("ADD", round).result();
        assert!(file.exists());
    }
    assert_eq!(machine.reserved(), ["10.1.0.3", "10.1.0.4", "10.1.0.5"]);
}

#[test]
fn a_reservation_that_may_be_of_this_boot_stays_until_the_next() {
    needs!("host-local");
    let machine = Machine::new(json!("boot"));
    // The allocator has never read this directory.
    machine.host_local("ADD", "h1").result();
    machine.ours("ADD", "a").result();
    assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3"]);

    machine.boots("second");
    // Reserved since the boot, but before the allocator's first call.
    machine.host_local("ADD", "h2").result();
    machine.ours("ADD", "b").result();
    assert_eq!(machine.reserved(), ["10.1.0.4", "10.1.0.5"]);

    machine.boots("third");
    machine.ours("DEL", "unknown").nothing();
    assert!(machine.reserved().is_empty());
}

#[test]
fn nothing_is_released_in_a_boot_without_the_key() {
    let mut machine = Machine::new(json!("boot"));
    machine.ours("ADD", "a").result();
    machine.boots("second");
    machine.reclaim = Value::Null;
    machine.ours("ADD", "b").result();
    machine.reclaim = json!("boot");
    // b is alive, a isn't.
    machine.ours("ADD", "c").result();
    assert_eq!(machine.reserved(), ["10.1.0.3", "10.1.0.4"]);
}

#[test]
fn in_a_shared_pool_only_the_networks_own_reservations_go() {
    let mut machine = Machine::new(json!("boot"));
    machine.pool = Some("blue");
    for network in ["red", "green"] {
        machine.network = network;
        machine.ours("ADD", network).result();
    }
    machine.boots("second");
    machine.network = "red";
    machine.ours("ADD", "r2").result();
    assert_eq!(machine.reserved(), ["10.1.0.3", "10.1.0.4"]);
    machine.network = "green";
    machine.ours("ADD", "g2").result();
    assert_eq!(machine.reserved(), ["10.1.0.4", "10.1.0.5"]);
}

#[test]
fn old_files_without_an_interface_go_too_and_other_files_stay() {
    let machine = Machine::new(json!("boot"));
    let directory = machine.sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("10.1.0.2"), "c1").unwrap();
    fs::write(directory.join("10.1.0.4"), "c1\r\neth0").unwrap();
    fs::write(directory.join("notes"), "keep").unwrap();
    machine.ours("DEL", "unknown").nothing();
    machine.boots("second");
    machine.ours("DEL", "unknown").nothing();
    assert!(machine.reserved().is_empty());
    assert!(directory.join("notes").exists());
}

#[test]
fn host_local_ignores_the_file_about_the_boot() {
    needs!("host-local");
    let machine = Machine::new(json!("boot"));
    machine.ours("ADD", "a").result();
    assert!(machine.last_boot().exists());
    assert_eq!(machine.host_local("ADD", "h1").ips(), ["10.1.0.3"]);
    machine.host_local("DEL", "a").nothing();
    machine.host_local("DEL", "h1").nothing();
    assert!(machine.reserved().is_empty());
    assert!(machine.last_boot().exists());
}

#[test]
fn reclaim_is_off_by_default() {
    let machine = Machine::new(Value::Null);
    machine.ours("ADD", "a").result();
    machine.boots("second");
    machine.ours("ADD", "b").result();
    assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3"]);
    assert!(!machine.last_boot().exists());
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
    // DEL still releases addresses.
    let output = machine.ours("DEL", "a");
    output.nothing();
    assert!(output.stderr.contains("ipam.reclaim"), "{output:?}");

    let machine = Machine::new(json!("boot"));
    fs::remove_dir_all(machine.proc()).unwrap();
    let output = machine.ours("ADD", "a");
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(
        output.stderr.contains("can't tell the last boot"),
        "{output:?}"
    );
}

/// A machine with two reservations: one that was listed in its first boot, and one that was made
/// in it.
fn with_two_that_live() -> Machine {
    let machine = Machine::new(json!("boot"));
    let directory = machine.sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("10.1.0.2"), "h1\r\neth0").unwrap();
    machine.ours("ADD", "a").result();
    assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3"]);
    machine
}

#[test]
fn a_damaged_note_of_the_boot_releases_nothing_and_is_written_anew() {
    let machine = with_two_that_live();
    let note = fs::read_to_string(machine.last_boot()).unwrap();
    for damaged in [
        note.replace("first", "farst"),
        note.replace("boot ", "foot "),
        note[..note.len() / 2].to_owned(),
        String::new(),
    ] {
        fs::write(machine.last_boot(), damaged).unwrap();
        // After the clock was set, all files are older than the boot's start.
        machine.has_booted("first", 60);
        machine.ours("STATUS", "b").nothing();
        assert_eq!(machine.reserved(), ["10.1.0.2", "10.1.0.3"]);
        let now = fs::read_to_string(machine.last_boot()).unwrap();
        assert!(
            now.starts_with("boot first\n") && now.contains("\nsum "),
            "{now}"
        );
    }
}

#[test]
fn two_boot_ids_on_one_kernel_release_nothing_of_each_other() {
    let machine = Machine::new(json!("boot"));
    for (n, id) in ["host", "container", "host", "container"]
        .iter()
        .enumerate()
    {
        machine.has_booted(id, -60);
        machine.ours("ADD", &format!("c{n}")).result();
    }
    assert_eq!(machine.reserved().len(), 4);
    // After the machine's next boot, the reservations of both are released.
    machine.boots("next");
    machine.ours("STATUS", "c").nothing();
    assert!(machine.reserved().is_empty(), "{:?}", machine.reserved());
}

#[test]
fn an_unknown_start_of_the_boot_releases_nothing() {
    let machine = with_two_that_live();
    machine.boots("second");
    fs::remove_file(machine.proc().join("stat")).unwrap();
    let output = machine.ours("ADD", "b");
    assert_eq!(output.ips(), ["10.1.0.4"]);
    assert!(output.stderr.contains("isn't known"), "{output:?}");
    assert_eq!(machine.reserved().len(), 3);
    // Once the start is known, they are released.
    machine.has_booted("second", 1);
    machine.ours("STATUS", "b").nothing();
    assert_eq!(machine.reserved(), ["10.1.0.4"]);
}
