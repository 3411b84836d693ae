//! The allocator's cache: the reservation files decide, even if the cache is damaged or others
//! change the directory.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

use crate::opened_files::opened_in;

/// A network with only an allocator: its pool is passed without a selector.
struct Network {
    sandbox: Sandbox,
    pools: Value,
}

impl Network {
    fn new(subnet: &str) -> Self {
        Self {
            sandbox: Sandbox::default().with_reference("host-local"),
            pools: json!([{ "subnet": subnet }]),
        }
    }

    fn call(&self, command: &str, container: &str) -> Output {
        let call = self.sandbox.allocator_call(command, container, &self.pools);
        call.run()
    }

    fn host_local(&self, command: &str, container: &str) -> Output {
        let ipam = json!({"ranges": [self.pools]});
        let config = self.sandbox.config("1.0.0", &[], &ipam);
        self.sandbox
            .call("host-local", command, &config)
            .container(container)
            .run()
    }

    fn directory(&self) -> PathBuf {
        self.sandbox.data_dir().join("testnet")
    }

    /// The only file in the cache.
    fn index(&self) -> PathBuf {
        let mut files: Vec<PathBuf> = fs::read_dir(self.sandbox.cache_dir())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    /// Runs ADD and DEL, and checks that both work in any state of the cache.
    #[track_caller]
    fn works(&self, round: &str) {
        let before = self.sandbox.reserved("testnet");
        let ip = self.call("ADD", round).ips().remove(0);
        assert!(!before.contains(&ip), "{ip} was reserved");
        assert_eq!(self.call("ADD", round).code(), 110);
        self.call("DEL", round).nothing();
        assert_eq!(self.sandbox.reserved("testnet"), before);
    }
}

#[test]
fn a_call_reads_no_reservation_but_its_own() {
    let network = Network::new("10.1.0.0/16");
    fs::create_dir_all(network.directory()).unwrap();
    for n in 2..250 {
        fs::write(
            network.directory().join(format!("10.1.0.{n}")),
            format!("x{n}\r\neth0"),
        )
        .unwrap();
    }
    network.works("first");

    let mut c1 = String::new();
    let names = opened_in(&network.directory(), || {
        c1 = network.call("ADD", "c1").ips().remove(0);
        network.call("STATUS", "-").nothing();
        network.call("DEL", "c1").nothing();
        network.call("DEL", "c1").nothing();
        network.call("DEL", "never-added").nothing();
    });
    let expected = [c1, "last_reserved_ip.0".to_owned(), "lock".to_owned()];
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn the_cache_may_be_deleted_or_damaged_at_any_moment() {
    let network = Network::new("10.1.0.0/24");
    for container in ["a", "b", "c"] {
        network.call("ADD", container).result();
    }
    let index = network.index();
    let whole = fs::read(&index).unwrap();
    fs::remove_file(&index).unwrap();
    network.works("deleted");
    assert!(index.exists());
    fs::remove_dir_all(network.sandbox.cache_dir()).unwrap();
    network.works("deleted-with-its-folder");

    for length in [0, 1, 63, 64, 4096, 5000, whole.len() - 1] {
        OpenOptions::new()
            .write(true)
            .open(&index)
            .unwrap()
            .set_len(length as u64)
            .unwrap();
        network.works(&format!("cut-off-at-{length}"));
    }
    for at in [0, 7, 8, 24, 40, 60] {
        let file = OpenOptions::new().write(true).open(&index).unwrap();
        file.write_all_at(b"\xa5", at).unwrap();
        network.works(&format!("header-byte-{at}"));
    }
    for page in 1..whole.len() / 4096 {
        let file = OpenOptions::new().write(true).open(&index).unwrap();
        file.write_all_at(b"\xa5", page as u64 * 4096 + 20).unwrap();
        network.works(&format!("page-{page}"));
    }
    // A valid index, but of an earlier state of the directory.
    fs::write(&index, &whole).unwrap();
    network.works("old");
    // An index of another version.
    let file = OpenOptions::new().write(true).open(&index).unwrap();
    file.write_all_at(b"ipamidx0", 0).unwrap();
    network.works("other-version");
}

#[test]
fn without_a_folder_for_the_cache_everything_works() {
    let network = Network::new("10.1.0.0/24");
    fs::write(
        network.sandbox.cache_dir(),
        "a file where the folder should be",
    )
    .unwrap();
    network.call("ADD", "a").result();
    network.works("no-folder");
    assert_eq!(network.sandbox.reserved("testnet"), ["10.1.0.2"]);
}

#[test]
fn an_address_is_free_at_once_when_a_script_removes_its_file() {
    let network = Network::new("10.1.0.0/29");
    network.works("first");
    for round in 0..10 {
        let name = |n: usize| format!("c{round}-{n}");
        let ips: Vec<String> = (0..5)
            .map(|n| network.call("ADD", &name(n)).ips().remove(0))
            .collect();
        network.call("DEL", &name(2)).nothing();
        // Immediately: within the same tick of the kernel's clock.
        fs::remove_file(network.directory().join(&ips[0])).unwrap();
        // The first address comes before the third in the rotation. The pool isn't full, so an
        // index that misses the change would give the third.
        assert_eq!(network.call("ADD", "next").ips(), [ips[0].as_str()]);
        for n in 0..5 {
            network.call("DEL", &name(n)).nothing();
        }
        network.call("DEL", "next").nothing();
    }
}

#[test]
fn an_address_is_taken_and_can_be_released_at_once_when_a_script_writes_its_file() {
    let network = Network::new("10.1.0.0/24");
    network.works("first");
    for round in 0..50 {
        let container = format!("script{round}");
        let ip: std::net::Ipv4Addr = network.call("ADD", &format!("c{round}")).ips()[0]
            .parse()
            .unwrap();
        let next = std::net::Ipv4Addr::from(u32::from(ip) + 1).to_string();
        fs::write(
            network.directory().join(&next),
            format!("{container}\r\neth0"),
        )
        .unwrap();
        assert_eq!(network.call("ADD", &container).code(), 110);
        let given = network.call("ADD", &format!("d{round}")).ips().remove(0);
        assert_ne!(given, next);
        network.call("DEL", &container).nothing();
        assert!(!network.directory().join(&next).exists());
        network.call("DEL", &format!("d{round}")).nothing();
    }
}

#[test]
fn changes_by_host_local_are_seen_at_once() {
    needs!("host-local");
    let network = Network::new("10.1.0.0/29");
    network.works("first");
    for round in 0..20 {
        // Five addresses: first all by host-local, then all by us.
        for n in 0..5 {
            network.host_local("ADD", &format!("h{round}-{n}")).result();
        }
        assert_eq!(network.call("ADD", "one-too-many").code(), 11);
        assert_eq!(network.call("STATUS", "-").code(), 50);
        for n in 0..5 {
            // Each address by one of the two.
            let container = format!("h{round}-{n}");
            if n % 2 == 0 {
                network.host_local("DEL", &container).nothing();
            } else {
                network.call("DEL", &container).nothing();
            }
        }
        assert!(network.sandbox.reserved("testnet").is_empty());
        for n in 0..5 {
            network.call("ADD", &format!("o{round}-{n}")).result();
        }
        assert!(!network.host_local("ADD", "one-too-many").status.success());
        for n in 0..5 {
            network.call("DEL", &format!("o{round}-{n}")).nothing();
        }
    }
}

#[test]
fn a_directory_that_is_made_anew_has_a_cache_of_its_own() {
    let network = Network::new("10.1.0.0/30");
    for round in 0..10 {
        network.call("ADD", &format!("c{round}")).result();
        fs::remove_dir_all(network.directory()).unwrap();
    }
}

#[test]
fn the_cache_grows_with_the_directory() {
    // More reservations than the smallest index can hold, by successive calls.
    let network = Network::new("10.1.0.0/20");
    network.call("ADD", "first").result();
    let size = fs::metadata(network.index()).unwrap().len();
    for n in 0..900 {
        fs::write(
            network
                .directory()
                .join(format!("10.1.{}.{}", 4 + n / 250, n % 250)),
            format!("x{n}\r\neth0"),
        )
        .unwrap();
    }
    for n in 0..900 {
        if n % 100 == 0 {
            network.works(&format!("n{n}"));
        }
    }
    assert!(fs::metadata(network.index()).unwrap().len() > size);
}

#[test]
fn an_index_that_overflows_is_built_anew() {
    // Each address is in another chunk of the index, whose second table is small.
    let network = Network::new("fd00::/64");
    let add = |n: u32| {
        let mut config = network.sandbox.config("1.1.0", &[], &json!({}));
        let ip = format!("fd00::{:x}:0:1", n + 1);
        config["prevResult"] = json!({"pools": [{"subnet": "fd00::/64", "requested-ip": ip}]});
        let call = network.sandbox.call("ipam-da-host-local", "ADD", &config);
        assert_eq!(call.container(&format!("c{n}")).run().ips(), [ip]);
    };
    for n in 0..150 {
        add(n);
    }
    network.works("many");
    for n in 0..150 {
        network.call("DEL", &format!("c{n}")).nothing();
    }
    assert!(network.sandbox.reserved("testnet").is_empty());
}
