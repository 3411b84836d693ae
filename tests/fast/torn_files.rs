//! Empty or truncated reservation files: a crashed host-local leaves them. All writers hold the
//! lock, so under it a torn file is nobody's.

use std::fs;
use std::path::PathBuf;
use std::thread;

use harness::{Call, Flavour, Sandbox};
use serde_json::{Value, json};

use harness::waiting::{held_lock, wait_until_equal};

const TORN: [&str; 3] = ["", "c9\r\n", "\0\0\0"];

struct Pool {
    sandbox: Sandbox,
    pool: Value,
}

impl Pool {
    /// Five addresses, beginning with 10.1.0.2.
    fn new(sandbox: Sandbox) -> Self {
        fs::create_dir_all(sandbox.data_dir().join("testnet")).unwrap();
        let pool = json!({"subnet": "10.1.0.0/29"});
        Self { sandbox, pool }
    }

    fn call(&self, command: &str, container: &str) -> Call {
        let pools = json!([self.pool]);
        self.sandbox.allocator_call(command, container, &pools)
    }

    fn add(&self, container: &str) -> String {
        self.call("ADD", container).run().ips().remove(0)
    }

    fn file(&self, ip: &str) -> PathBuf {
        self.sandbox.data_dir().join("testnet").join(ip)
    }
}

#[test]
fn a_torn_file_is_given_out_again_if_it_is_requested() {
    for torn in TORN {
        let mut pool = Pool::new(Sandbox::default());
        let file = pool.file("10.1.0.2");
        fs::write(&file, torn).unwrap();
        assert_eq!(pool.add("c1"), "10.1.0.3", "{torn:?}");
        pool.pool["requested-ip"] = json!("10.1.0.2");
        let output = pool.call("ADD", "c2").run();
        assert_eq!(output.ips(), ["10.1.0.2"], "{torn:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "c2\r\neth0");
        let path = file.to_str().unwrap();
        assert!(
            output.stderr.contains("WARN") && output.stderr.contains(path),
            "{output:?}"
        );
    }
}

#[test]
fn a_full_pool_gives_out_its_empty_files_and_gc_removes_the_others() {
    for torn in TORN {
        let pool = Pool::new(Sandbox::default());
        for n in 0..5 {
            pool.add(&format!("c{n}"));
        }
        assert_eq!(pool.call("ADD", "d").run().code(), 11);
        // `: > 10.1.0.4` doesn't change the directory.
        fs::write(pool.file("10.1.0.4"), torn).unwrap();
        if !torn.is_empty() {
            assert_eq!(pool.call("ADD", "d").run().code(), 11, "{torn:?}");
            let valid = (0..5).map(|n| json!({"containerID": format!("c{n}"), "ifname": "eth0"}));
            let mut config = pool.sandbox.allocator_config(&json!([pool.pool]));
            config["cni.dev/valid-attachments"] = valid.collect();
            let gc = pool.sandbox.call("ipam-da-host-local", "GC", &config);
            gc.run().nothing();
            assert_eq!(pool.sandbox.reserved("testnet").len(), 4);
        }
        pool.call("STATUS", "-").run().nothing();
        assert_eq!(pool.add("d"), "10.1.0.4");
        assert_eq!(pool.call("ADD", "e").run().code(), 11);
        assert_eq!(pool.call("STATUS", "-").run().code(), 50);
    }
}

#[test]
fn a_file_that_another_program_is_writing_is_not_torn() {
    let pool = Pool::new(Sandbox::new(Flavour::Verbose));
    let log = || pool.sandbox.log("ipam-da-host-local");
    let file = pool.file("10.1.0.2");
    let lock = held_lock(&pool.sandbox, "testnet");
    fs::write(&file, "").unwrap();
    thread::scope(|scope| {
        let gc = scope.spawn(|| pool.call("GC", "-").run());
        // It has read the empty file, and waits for the lock.
        wait_until_equal(|| log().matches("waiting for another process").count(), 1);
        fs::write(&file, "other\r\neth0\r\nothernet").unwrap();
        drop(lock);
        gc.join().unwrap().nothing();
    });
    assert!(file.exists());
}

#[test]
fn a_lock_file_that_is_replaced_during_the_wait_is_not_the_lock() {
    let pool = Pool::new(Sandbox::new(Flavour::Verbose));
    let waits = || {
        let log = pool.sandbox.log("ipam-da-host-local");
        log.matches("waiting for another process").count()
    };
    let first = held_lock(&pool.sandbox, "testnet");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.call("ADD", "c1").run());
        wait_until_equal(waits, 1);
        // Somebody removes the lock file, and another process creates and locks a new one.
        fs::remove_file(pool.file("lock")).unwrap();
        let second = held_lock(&pool.sandbox, "testnet");
        drop(first);
        wait_until_equal(waits, 2);
        assert!(pool.sandbox.reserved("testnet").is_empty());
        drop(second);
        assert_eq!(waiting.join().unwrap().ips(), ["10.1.0.2"]);
    });
}
