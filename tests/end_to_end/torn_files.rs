//! Empty or truncated reservation files: a crashed host-local leaves them, and a running one may
//! be writing them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use harness::{Call, Flavour, Sandbox, needs};
use serde_json::{Value, json};

use crate::waiting::{held_lock, wait_until_equal};

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

fn ages(path: &PathBuf, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    let time = SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(time).unwrap();
}

#[test]
fn a_torn_file_older_than_ten_seconds_is_given_out_again() {
    for torn in TORN {
        let pool = Pool::new(Sandbox::default());
        let file = pool.file("10.1.0.2");
        fs::write(&file, torn).unwrap();
        ages(&file, 11);
        let output = pool.call("ADD", "c1").run();
        assert_eq!(output.ips(), ["10.1.0.2"], "{torn:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "c1\r\neth0");
        let path = file.to_str().unwrap();
        assert!(
            output.stderr.contains("WARN") && output.stderr.contains(path),
            "{output:?}"
        );
    }
}

#[test]
fn a_torn_file_is_given_out_again_where_names_can_not_be_exchanged() {
    needs!("/usr/bin/strace");
    for error in ["EINVAL", "ENOSYS", "EOPNOTSUPP"] {
        let pool = Pool::new(Sandbox::default());
        let file = pool.file("10.1.0.2");
        fs::write(&file, "").unwrap();
        ages(&file, 11);
        let inject = format!("inject=renameat2:error={error}");
        let strace = ["strace", "-o", "/dev/null", "-e", &inject];
        let output = pool.call("ADD", "c1").through(&strace).run();
        assert_eq!(output.ips(), ["10.1.0.2"], "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "c1\r\neth0");
    }
}

#[test]
fn a_younger_torn_file_is_taken_and_no_gc_removes_it() {
    for torn in TORN {
        let mut pool = Pool::new(Sandbox::default());
        let file = pool.file("10.1.0.2");
        fs::write(&file, torn).unwrap();
        assert_eq!(pool.add("c1"), "10.1.0.3", "{torn:?}");
        pool.call("GC", "-").run().nothing();
        assert!(file.exists());
        pool.pool["requested-ip"] = json!("10.1.0.2");
        let error = pool.call("ADD", "c2").run().error();
        assert_eq!(error["code"], 111);
        let msg = error["msg"].as_str().unwrap();
        assert!(msg.contains("younger than ten seconds"), "{error}");
        // After the clock was set back, the file's time is in the future.
        let opened = File::options().write(true).open(&file).unwrap();
        opened
            .set_modified(SystemTime::now() + Duration::from_secs(3600))
            .unwrap();
        assert_eq!(pool.call("ADD", "c2").run().code(), 111);
        ages(&file, 11);
        assert_eq!(pool.add("c2"), "10.1.0.2");
    }
}

#[test]
fn gc_removes_an_old_torn_file() {
    let pool = Pool::new(Sandbox::default());
    let file = pool.file("10.1.0.2");
    fs::write(&file, "").unwrap();
    ages(&file, 11);
    pool.call("GC", "-").run().nothing();
    assert!(!file.exists());
}

#[test]
fn a_file_that_was_emptied_in_place_is_found_before_the_pool_is_called_full() {
    let pool = Pool::new(Sandbox::default());
    for n in 0..5 {
        pool.add(&format!("c{n}"));
    }
    assert_eq!(pool.call("ADD", "d").run().code(), 11);
    // `: > 10.1.0.4` doesn't change the directory.
    let file = pool.file("10.1.0.4");
    File::create(&file).unwrap();
    ages(&file, 11);
    // The files of a full pool are read once in ten seconds; without the index, immediately.
    fs::remove_dir_all(pool.sandbox.cache_dir()).unwrap();
    pool.call("STATUS", "-").run().nothing();
    assert_eq!(pool.add("d"), "10.1.0.4");
    assert_eq!(pool.call("ADD", "e").run().code(), 11);
    assert_eq!(pool.call("STATUS", "-").run().code(), 50);
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
