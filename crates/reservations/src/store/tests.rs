//! Tests of a store: what it writes, and what the next one finds.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cni::Environment;
use state_files::Boot;
use tempfile::TempDir;

use super::*;
use crate::data_dir::DataDir;
use crate::sticky_keys::StickyPool;
use crate::view;

/// The directory of the network `net`.
struct Place {
    root: TempDir,
    /// The settings of the calls.
    reclaim: Option<Boot>,
    call: Option<String>,
}

impl Place {
    fn new() -> Self {
        Self {
            root: TempDir::new().unwrap(),
            reclaim: None,
            call: None,
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("data/net").join(name)
    }

    /// Calls `f` with the network's store.
    fn store<T>(&self, f: impl FnOnce(&mut Store<'_>) -> T) -> T {
        let name = "net".parse().unwrap();
        let data_dir = DataDir::new(Settings {
            data_dir: self.root.path().join("data"),
            cache_dir: self.root.path().join("cache"),
            network: "net".parse().unwrap(),
            reclaim: self.reclaim.clone(),
            call: self.call.clone(),
            cancellation: None,
        });
        let mut stores = data_dir.create(&[&name]).unwrap();
        f(stores.get(&name).unwrap())
    }

    fn reserve(&self, last: u8) {
        let reserved = self.store(|store| store.reserve(ip(last), &attachment()));
        reserved.unwrap().unwrap();
    }

    /// The next call is in a boot with this ID, which starts `from_now` seconds after now.
    fn reboot(&mut self, id: &str, from_now: i64) {
        let proc = self.root.path().join("proc");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let start = i64::try_from(now.as_secs()).unwrap() + from_now;
        fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
        fs::write(proc.join("sys/kernel/random/boot_id"), id).unwrap();
        fs::write(proc.join("stat"), format!("btime {start}\n")).unwrap();
        let environment = Environment::default().with("IPAM_DELEGATED_PROC", &proc);
        self.reclaim = Some(Boot::current(&environment).unwrap());
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn attachment() -> Attachment {
    Attachment {
        container_id: "c1".parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

fn make_old(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let day = Duration::from_secs(25 * 60 * 60);
    file.set_modified(SystemTime::now() - day).unwrap();
}

const ALL: StickyPool<'_> = StickyPool {
    contains: &|_| true,
    capacity: 3,
};

#[test]
fn a_released_address_is_free_again() {
    let place = Place::new();
    place.reserve(2);
    let interval = [Interval::new(ip(2), ip(3)).unwrap()];
    let first = |store: &mut Store<'_>| store.first_free(&interval).unwrap();
    assert_eq!(place.store(first), Some((0, ip(3))));
    place.store(|store| store.release(ip(2))).unwrap();
    assert!(!place.path("10.0.0.2").exists());
    assert_eq!(place.store(first), Some((0, ip(2))));
}

#[test]
fn without_an_index_a_torn_file_is_free_and_every_other_is_taken() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    fs::write(place.path("10.0.0.2"), "c2\r\neth0").unwrap();
    fs::write(place.path("10.0.0.3"), "").unwrap();
    make_old(&place.path("10.0.0.3"));
    let interval = [Interval::new(ip(2), ip(9)).unwrap()];
    let reserved = place.store(|store| store.reserve_first(&interval, &attachment()));
    assert_eq!(reserved.unwrap(), Some((0, ip(3))));
    let content = fs::read_to_string(place.path("10.0.0.3")).unwrap();
    assert_eq!(content, "c1\r\neth0");
}

#[test]
fn a_network_lists_its_own_reservations_and_torn_files() {
    let place = Place::new();
    place.reserve(3);
    fs::write(place.path("10.0.0.2"), "").unwrap();
    make_old(&place.path("10.0.0.2"));
    fs::write(place.path("10.0.0.4"), "c1\r\neth0\r\nother").unwrap();
    place.store(|store| {
        let all = store.all().unwrap();
        let ips: Vec<IpAddr> = all.iter().map(|(ip, _)| *ip).collect();
        assert_eq!(ips, [ip(2), ip(3)]);
        let Some(State::Reserved(other)) = store.state(ip(4)).unwrap() else {
            panic!("it is reserved");
        };
        assert!(!store.is_ours(&other));
    });
}

#[test]
fn a_file_that_can_not_be_read_is_an_error_with_its_path() {
    let place = Place::new();
    fs::create_dir_all(place.path("10.0.0.2")).unwrap();
    let error = place.store(|store| store.state(ip(2))).unwrap_err();
    let path = place.path("10.0.0.2");
    assert!(error.msg.contains(path.to_str().unwrap()), "{error}");
}

#[test]
fn each_pool_has_its_own_rotation() {
    let place = Place::new();
    let last = |pool| place.store(|store| store.last_reserved(pool));
    assert_eq!([last(0), last(1)], [None, None]);
    for (pool, last) in [(0, 10), (1, 20)] {
        place.store(|store| store.set_last_reserved(pool, ip(last)));
    }
    assert_eq!([last(0), last(1)], [Some(ip(10)), Some(ip(20))]);
    // The pool that was asked for last isn't the one that gives an address.
    place.store(|store| {
        store.last_reserved(1);
        store.set_last_reserved(0, ip(11));
    });
    assert_eq!([last(0), last(1)], [Some(ip(11)), Some(ip(20))]);
}

#[test]
fn an_address_given_last_is_overwritten_in_place_if_the_old_one_has_its_length() {
    let place = Place::new();
    let path = place.path("last_reserved_ip.0");
    let set = |last| {
        place.store(|store| {
            store.last_reserved(0);
            store.set_last_reserved(0, ip(last));
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), ip(last).to_string());
    };
    set(10);
    let first = fs::File::open(&path).unwrap();
    set(11);
    assert_eq!(first.metadata().unwrap().nlink(), 1);
    set(9);
    assert_eq!(first.metadata().unwrap().nlink(), 0);
    set(100);
}

#[test]
fn a_sticky_key_has_its_address_in_the_next_call() {
    let place = Place::new();
    let remember = |key: &str, last| {
        place.store(|store| store.remember_key(key, ip(last), ALL));
        place.store(|store| store.address_of_key(key, ALL))
    };
    assert_eq!(remember("a", 2), Some(ip(2)));
    let first = fs::File::open(place.path("sticky_keys")).unwrap();
    assert_eq!(remember("b", 3), Some(ip(3)));
    assert_eq!(first.metadata().unwrap().nlink(), 1, "a line is appended");
    let path = place.path("");
    let seen = |key| view::address_of_key(&path, key, ALL).unwrap();
    assert_eq!(
        [seen("a"), seen("b"), seen("c")],
        [Some(ip(2)), Some(ip(3)), None]
    );
}

#[test]
fn a_file_of_sticky_keys_is_shortened_when_it_is_long() {
    let place = Place::new();
    for n in 0..80 {
        place.store(|store| store.remember_key("a", ip(n), ALL));
    }
    let lines = fs::read_to_string(place.path("sticky_keys")).unwrap();
    assert!(lines.lines().count() < 68, "{lines}");
    let found = place.store(|store| store.address_of_key("a", ALL));
    assert_eq!(found, Some(ip(79)));
}

#[test]
fn a_link_in_the_place_of_the_sticky_keys_is_read_and_never_replaced() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    let victim = place.root.path().join("victim");
    fs::write(&victim, "10.0.0.2 \"a\"\n").unwrap();
    symlink(&victim, place.path("sticky_keys")).unwrap();
    place.store(|store| {
        assert_eq!(store.address_of_key("a", ALL), Some(ip(2)));
        store.remember_key("a", ip(3), ALL);
    });
    assert_eq!(fs::read_to_string(&victim).unwrap(), "10.0.0.2 \"a\"\n");
    assert_eq!(fs::read_link(place.path("sticky_keys")).unwrap(), victim);
}

#[test]
fn a_reservation_is_of_the_call_that_made_it() {
    let mut place = Place::new();
    place.call = Some("call-1".to_owned());
    place.reserve(2);
    fs::write(place.path("10.0.0.3"), "c1\r\neth0").unwrap();
    place.store(|store| {
        assert!(store.is_of_call(ip(2), "call-1", false).unwrap());
        assert!(!store.is_of_call(ip(2), "call-2", true).unwrap());
        assert!(!store.is_of_call(ip(3), "call-1", true).unwrap());
    });
}

#[test]
fn files_of_killed_processes_are_removed() {
    let place = Place::new();
    place.reserve(2);
    for leftover in ["unfinished.tmp", "unfinished.0123456789abcdef.tmp"] {
        fs::write(place.path(leftover), "").unwrap();
    }
    place.store(|store| store.remove_leftovers()).unwrap();
    let files = fs::read_dir(place.path("")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["10.0.0.2", "lock"]);
}

#[test]
fn a_directory_in_which_no_file_can_be_made_is_not_writable() {
    let place = Place::new();
    place.store(|store| {
        store.verify_writable().unwrap();
        assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 1);
        fs::remove_dir_all(place.path("")).unwrap();
        store.verify_writable().unwrap_err();
    });
}

#[test]
fn reservations_from_before_the_boot_are_released_once() {
    let mut place = Place::new();
    let boot = |place: &Place| {
        let last = view::last_reclaim(&place.path(""), "net").unwrap();
        last.map(|last| last.boot)
    };
    place.reboot("A", -9);
    place.reserve(2);
    assert_eq!(boot(&place).as_deref(), Some("A"));
    // Another ID, but no later start: undecided, and looked at again.
    place.reboot("B", -9);
    place.store(|_| {});
    assert!(place.path("10.0.0.2").exists());
    assert_eq!(boot(&place).as_deref(), Some("A"));
    place.reboot("C", 9);
    place.store(|_| {});
    assert!(!place.path("10.0.0.2").exists());
    assert_eq!(boot(&place).as_deref(), Some("C"));
}

#[test]
fn old_indexes_are_looked_for_when_a_directory_gets_its_first_index() {
    let place = Place::new();
    let old = place.root.path().join("cache/1-2.index");
    place.store(|_| {});
    let make = || {
        fs::write(&old, "").unwrap();
        make_old(&old);
    };
    make();
    let interval = [Interval::new(ip(2), ip(9)).unwrap()];
    let first = |store: &mut Store<'_>| store.first_free(&interval).unwrap();
    assert_eq!(place.store(first), Some((0, ip(2))));
    assert!(!old.exists());
    make();
    // Another program has changed the directory, so its index is made again.
    fs::write(place.path("10.0.0.2"), "c2\r\neth0").unwrap();
    assert_eq!(place.store(first), Some((0, ip(3))));
    assert!(old.exists());
}

#[test]
fn the_files_of_a_full_directory_are_not_read_again_within_seconds() {
    let place = Place::new();
    place.reserve(2);
    let interval = [Interval::new(ip(2), ip(2)).unwrap()];
    let first = |store: &mut Store<'_>| store.first_free(&interval).unwrap();
    assert_eq!(place.store(first), None);
    // Emptied in place, which leaves the directory as it is.
    fs::write(place.path("10.0.0.2"), "").unwrap();
    make_old(&place.path("10.0.0.2"));
    assert_eq!(place.store(first), None);
    fs::remove_dir_all(place.root.path().join("cache")).unwrap();
    assert_eq!(place.store(first), Some((0, ip(2))));
}
