//! Directories below `dataDir`: which exist, what they hold, and which are locked together.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cni::{Attachment, NetworkName};
use ipam::Interval;
use reservations::{DataDir, Settings, Sought};
use tempfile::TempDir;

fn name(text: &str) -> NetworkName {
    text.parse().unwrap()
}

fn attachment(container_id: &str) -> Attachment {
    Attachment {
        container_id: container_id.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

/// The folders of a network, which is called `net`.
fn settings(folder: &Path) -> Settings<'static> {
    Settings {
        data_dir: folder.join("data"),
        cache_dir: folder.join("cache"),
        network: name("net"),
        reclaim: None,
        call: None,
        cancellation: None,
    }
}

/// Reserves the first address of a directory to a container.
fn reserve(folder: &Path, directory: &str, container_id: &str) -> IpAddr {
    let [first, last] = ["10.0.0.2", "10.0.0.9"].map(|ip| ip.parse().unwrap());
    let all = Interval::new(first, last).unwrap();
    let data_dir = DataDir::new(settings(folder));
    let directory = name(directory);
    let mut stores = data_dir.create(&[&directory]).unwrap();
    let store = stores.get(&directory).unwrap();
    let reserved = store.reserve_first(&[all], &attachment(container_id));
    reserved.unwrap().unwrap().1
}

#[test]
fn a_directory_is_opened_if_it_exists() {
    let folder = TempDir::new().unwrap();
    let data_dir = DataDir::new(settings(folder.path()));
    assert!(data_dir.open(&name("net")).unwrap().is_none());
    assert_eq!(data_dir.names().unwrap(), []);
    let ip = reserve(folder.path(), "net", "c1");
    let mut store = data_dir.open(&name("net")).unwrap().unwrap();
    let held = store.held_by(&attachment("c1"), &[]).unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].0, ip);
    assert!(store.held_by(&attachment("c2"), &[]).unwrap().is_empty());
    assert!(store.is_ours(&held[0].1));
    drop(store);
    assert_eq!(data_dir.names().unwrap(), [name("net")]);
}

#[test]
fn what_is_no_directory_holds_nothing() {
    let folder = TempDir::new().unwrap();
    let data_dir = DataDir::new(settings(folder.path()));
    // A file in the place of a directory: no reservation can be in it.
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/net"), "").unwrap();
    assert!(data_dir.open(&name("net")).unwrap().is_none());
    assert!(!data_dir.may_hold(&name("net"), Sought::Network).unwrap());
    assert!(data_dir.create(&[&name("net")]).is_err());
    // Nor in a link that leads to itself.
    symlink("loop", folder.path().join("data/loop")).unwrap();
    assert!(data_dir.open(&name("loop")).unwrap().is_none());
}

#[test]
fn what_a_directory_may_hold_is_known_with_and_without_its_index() {
    let folder = TempDir::new().unwrap();
    let hints = [reserve(folder.path(), "net", "c1")];
    reserve(folder.path(), "pool", "c1");
    for has_index in [true, false] {
        if !has_index {
            fs::remove_dir_all(folder.path().join("cache")).unwrap();
        }
        let data_dir = DataDir::new(settings(folder.path()));
        let may_hold = |directory: &str, sought| data_dir.may_hold(&name(directory), sought);
        let [c1, c2] = ["c1", "c2"].map(attachment);
        for directory in ["net", "pool"] {
            assert!(may_hold(directory, Sought::Network).unwrap());
            assert!(may_hold(directory, Sought::Attachment(&c1, &[])).unwrap());
            assert!(!may_hold(directory, Sought::Attachment(&c2, &[])).unwrap());
            assert!(!may_hold(directory, Sought::Attachment(&c2, &hints)).unwrap());
        }
        assert!(!may_hold("missing", Sought::Network).unwrap());
    }
    // Another network has nothing in the shared pool.
    let other = Settings {
        network: name("other"),
        ..settings(folder.path())
    };
    let data_dir = DataDir::new(other);
    let c1 = attachment("c1");
    let sought = Sought::Attachment(&c1, &[]);
    assert!(!data_dir.may_hold(&name("pool"), sought).unwrap());
}

#[test]
fn two_names_of_one_directory_share_a_store_and_a_lock() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("data/one")).unwrap();
    symlink("one", folder.path().join("data/link")).unwrap();
    let data_dir = DataDir::new(settings(folder.path()));
    let [one, link, other] = ["one", "link", "other"].map(name);
    // With two stores, the second lock would wait for the first one forever.
    let mut stores = data_dir.create(&[&one, &link, &other]).unwrap();
    let ip = "10.0.0.2".parse().unwrap();
    let by_one = stores.get(&one).unwrap().reserve(ip, &attachment("c1"));
    by_one.unwrap().unwrap();
    let by_link = stores.get(&link).unwrap().state(ip).unwrap();
    assert!(by_link.is_some());
    assert!(stores.get(&other).unwrap().state(ip).unwrap().is_none());
    assert!(stores.get(&name("missing")).is_none());
}

#[test]
fn a_status_opens_what_an_add_would_open_or_make() {
    let folder = TempDir::new().unwrap();
    let data_dir = DataDir::new(settings(folder.path()));
    assert!(data_dir.open_as_add_would(&name("net")).unwrap().is_none());
    assert!(!folder.path().join("data").exists());
    reserve(folder.path(), "net", "c1");
    assert!(data_dir.open_as_add_would(&name("net")).unwrap().is_some());
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data"), "").unwrap();
    assert!(data_dir.open_as_add_would(&name("net")).is_err());
}

#[test]
fn an_index_that_was_not_used_for_a_day_is_removed() {
    let folder = TempDir::new().unwrap();
    reserve(folder.path(), "net", "c1");
    let cache = folder.path().join("cache");
    let indexes = || {
        let files = fs::read_dir(&cache)
            .unwrap()
            .map(|file| file.unwrap().path());
        let indexes = files.filter(|path| path.extension().is_some_and(|end| end == "index"));
        indexes.collect::<Vec<_>>()
    };
    let of_net = indexes();
    reserve(folder.path(), "gone", "c1");
    fs::remove_dir_all(folder.path().join("data/gone")).unwrap();
    let data_dir = DataDir::new(settings(folder.path()));
    data_dir.remove_leftover_indexes();
    assert_eq!(indexes().len(), 2);
    let age_all = |hours: u64| {
        for path in indexes() {
            let file = fs::File::options().write(true).open(path).unwrap();
            let changed = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
            file.set_modified(changed).unwrap();
        }
    };
    age_all(23);
    data_dir.remove_leftover_indexes();
    assert_eq!(indexes().len(), 2);
    age_all(25);
    // A DEL for another network asks it, and would read all files without it.
    let other = Settings {
        network: name("other"),
        ..settings(folder.path())
    };
    let c1 = attachment("c1");
    let sought = Sought::Attachment(&c1, &[]);
    let held = DataDir::new(other).may_hold(&name("net"), sought);
    assert!(!held.unwrap());
    data_dir.remove_leftover_indexes();
    assert_eq!(indexes(), of_net);
}

#[test]
fn a_data_dir_that_can_not_be_read_is_not_an_empty_one() {
    let folder = TempDir::new().unwrap();
    // No path: it has a zero.
    let data_dir = DataDir::new(settings(&folder.path().join("no\0where")));
    assert!(data_dir.names().is_err());
}
