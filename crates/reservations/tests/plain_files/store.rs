//! Addresses of one locked directory: which are free, and what their files say.

use std::fs;
use std::net::IpAddr;

use crate::common::{attachment, data_dir, name, pool, reserve};
use ipam::Pool;
use reservations::{Reserved, State};
use tempfile::TempDir;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A folder in which all addresses of a pool have a file of this content.
fn filled(pool: &Pool, content: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let net = folder.path().join("data/net");
    fs::create_dir_all(&net).unwrap();
    for ip in pool.ranges.given().flat_map(|part| part.iter()) {
        fs::write(net.join(ip.to_string()), content).unwrap();
    }
    folder
}

/// The address that a container gets, after `last`.
fn next(folder: &TempDir, pool: &Pool, last: Option<&str>) -> Option<String> {
    let data_dir = data_dir(folder.path());
    let net = name("net");
    let stores = data_dir.create(&[&net]).unwrap();
    let store = stores.get(&net).unwrap();
    let candidates = pool.candidates(last.map(ip));
    let reserved = store.reserve_first(&candidates, &attachment("new"));
    reserved.unwrap().map(|(ip, _)| ip.to_string())
}

#[test]
fn a_file_names_the_network_in_a_directory_of_another_name() {
    let folder = TempDir::new().unwrap();
    for (directory, content) in [("net", "c1\r\neth0"), ("pools", "c1\r\neth0\r\nnet")] {
        let ip = reserve(folder.path(), directory, "c1");
        let file = folder
            .path()
            .join("data")
            .join(directory)
            .join(ip.to_string());
        assert_eq!(fs::read_to_string(file).unwrap(), content);
    }
}

#[test]
fn the_last_free_address_of_a_pool_is_found_wherever_it_is() {
    // More addresses than names are tried one after the other.
    let pool = pool("10.0.0.0/21");
    for free in ["10.0.0.2", "10.0.3.7", "10.0.7.254"] {
        let folder = filled(&pool, "c1\r\neth0");
        fs::remove_file(folder.path().join("data/net").join(free)).unwrap();
        assert_eq!(
            next(&folder, &pool, Some("10.0.0.9")).as_deref(),
            Some(free)
        );
        assert_eq!(next(&folder, &pool, Some("10.0.0.9")), None);
    }
}

#[test]
fn a_full_pool_gives_out_its_empty_files_and_no_other_torn_ones() {
    let pool = pool("10.0.0.0/28");
    let folder = filled(&pool, "c1\r\n");
    assert_eq!(next(&folder, &pool, None), None);
    fs::write(folder.path().join("data/net/10.0.0.9"), "").unwrap();
    assert_eq!(next(&folder, &pool, None).as_deref(), Some("10.0.0.9"));
    let content = fs::read_to_string(folder.path().join("data/net/10.0.0.9"));
    assert_eq!(content.unwrap(), "new\r\neth0");
    assert_eq!(next(&folder, &pool, None), None);
}

#[test]
fn a_torn_file_is_nobodys_when_its_address_is_requested() {
    let folder = TempDir::new().unwrap();
    let net = folder.path().join("data/net");
    fs::create_dir_all(&net).unwrap();
    fs::create_dir(net.join("10.0.0.7")).unwrap();
    let data_dir = data_dir(folder.path());
    let stores = data_dir.create(&[&name("net")]).unwrap();
    let store = stores.get(&name("net")).unwrap();
    for (content, is_torn) in [
        ("", true),
        ("c1\r\n", true),
        ("c1\r\n\0\0\0\0", true),
        ("c1\r\neth0\r\n", true),
        ("c1", false),
        ("c1\r\neth0", false),
    ] {
        fs::write(net.join("10.0.0.2"), content).unwrap();
        let reserved = store.reserve(ip("10.0.0.2"), &attachment("new")).unwrap();
        assert_eq!(reserved == Reserved::Now, is_torn, "{content:?}");
        let now = fs::read_to_string(net.join("10.0.0.2")).unwrap();
        assert_eq!(now, if is_torn { "new\r\neth0" } else { content });
    }
    let folder = store.reserve(ip("10.0.0.7"), &attachment("new")).unwrap();
    assert_eq!(folder, Reserved::Already(State::NotAFile));
}

#[test]
fn a_trial_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    reserve(folder.path(), "net", "c1");
    let data_dir = data_dir(folder.path());
    let store = data_dir.open(&name("net")).unwrap().unwrap();
    store.verify_writable().unwrap();
    let net = folder.path().join("data/net");
    let mut names: Vec<String> = fs::read_dir(&net)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["10.0.0.2", "lock"]);
    // A killed trial doesn't fail the next one.
    fs::write(net.join("unfinished.trial.tmp"), "x").unwrap();
    store.verify_writable().unwrap();
    assert!(!net.join("unfinished.trial.tmp").exists());
}
