//! Directories below `dataDir`: which exist, what they hold, and which are locked together.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{attachment, data_dir, name, reserve};
use reservations::{Reserved, State};
use tempfile::TempDir;

#[test]
fn a_directory_is_opened_if_it_exists() {
    let folder = TempDir::new().unwrap();
    let data_dir = data_dir(folder.path());
    assert!(data_dir.open(&name("net")).unwrap().is_none());
    assert_eq!(data_dir.names().unwrap(), []);
    let ip = reserve(folder.path(), "net", "c1");
    let state = data_dir.open(&name("net")).unwrap().unwrap().state(ip);
    let Some(State::Reserved(reservation)) = state else {
        panic!("{ip} isn't reserved")
    };
    assert!(reservation.is_attachment(&attachment("c1")));
    assert_eq!(data_dir.names().unwrap(), [name("net")]);
}

#[test]
fn a_directory_is_removed_if_nothing_of_others_is_in_it() {
    let folder = TempDir::new().unwrap();
    let (data_dir, net) = (data_dir(folder.path()), name("net"));
    let path = folder.path().join("data/net");
    data_dir.remove_unused(&net).unwrap();
    let reserved = path.join(reserve(folder.path(), "net", "c1").to_string());
    fs::write(path.join("last_reserved_ip.0"), "10.0.0.2").unwrap();
    for file in [path.join("notes"), reserved] {
        fs::write(&file, "").unwrap();
        data_dir.remove_unused(&net).unwrap();
        assert!(file.exists() && path.join("last_reserved_ip.0").exists());
        fs::remove_file(file).unwrap();
    }
    data_dir.remove_unused(&net).unwrap();
    assert!(!path.exists());
}

#[test]
fn what_a_file_in_the_place_of_a_directory_hides_is_not_known() {
    let folder = TempDir::new().unwrap();
    let data_dir = data_dir(folder.path());
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/net"), "").unwrap();
    assert!(data_dir.open(&name("net")).is_err() && data_dir.states(&name("net")).is_err());
    assert!(data_dir.create(&[&name("net")]).is_err());
    // A search passes over a file that no configuration names.
    assert_eq!(data_dir.names().unwrap(), []);
}

#[test]
fn what_a_link_to_nowhere_hides_is_not_known() {
    let folder = TempDir::new().unwrap();
    let data_dir = data_dir(folder.path());
    fs::create_dir(folder.path().join("data")).unwrap();
    symlink("loop", folder.path().join("data/loop")).unwrap();
    assert!(data_dir.open(&name("loop")).is_err());
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    symlink("disk", folder.path().join("data")).unwrap();
    let net = name("net");
    assert!(data_dir.open(&net).is_err() && data_dir.create(&[&net]).is_err());
    assert!(data_dir.states(&net).is_err() && data_dir.names().is_err());
    fs::create_dir(folder.path().join("disk")).unwrap();
    assert!(data_dir.open(&net).unwrap().is_none() && data_dir.names().unwrap().is_empty());
}

#[test]
fn what_can_not_be_read_under_the_lock_is_an_error_and_no_change() {
    let folder = TempDir::new().unwrap();
    let data_dir = data_dir(folder.path());
    let (net, ip) = (name("net"), reserve(folder.path(), "net", "c1"));
    let found = data_dir.states(&net).unwrap();
    let file = folder.path().join("data/net").join(ip.to_string());
    // Larger than any reservation.
    fs::write(&file, vec![b'x'; 2 << 20]).unwrap();
    let error = data_dir.release(&net, found).unwrap_err();
    assert_eq!(error.code, cni::code::TRY_AGAIN_LATER);
    assert!(error.msg.contains(file.to_str().unwrap()), "{error}");
    assert!(file.exists());
}

#[test]
fn what_has_changed_since_it_was_found_is_not_released() {
    let folder = TempDir::new().unwrap();
    let data_dir = data_dir(folder.path());
    let ip = reserve(folder.path(), "net", "c1");
    let file = folder.path().join("data/net").join(ip.to_string());
    let find = || data_dir.states(&name("net")).unwrap();
    let of_c1 = find();
    fs::write(&file, "c2\r\neth0").unwrap();
    assert!(data_dir.release(&name("net"), of_c1).unwrap().is_empty());
    // A torn file that somebody was writing, and one that stays torn.
    fs::write(&file, "").unwrap();
    let torn = find();
    fs::write(&file, "c2\r\neth0").unwrap();
    assert!(
        data_dir
            .release(&name("net"), torn.clone())
            .unwrap()
            .is_empty()
    );
    fs::write(&file, "").unwrap();
    assert_eq!(data_dir.release(&name("net"), torn).unwrap(), [ip]);
    assert!(!file.exists());
}

#[test]
fn a_search_leaves_no_lock_in_a_directory_without_anything_to_release() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("data/net")).unwrap();
    let data_dir = data_dir(folder.path());
    let found = data_dir.states(&name("net")).unwrap();
    assert!(data_dir.release(&name("net"), found).unwrap().is_empty());
    let ips = ["10.0.0.2".parse().unwrap()];
    assert_eq!(data_dir.states_of(&name("net"), &ips).unwrap(), []);
    let files = fs::read_dir(folder.path().join("data/net")).unwrap();
    assert_eq!(files.count(), 0);
}

#[test]
fn two_names_of_one_directory_share_a_store_and_a_lock() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("data/one")).unwrap();
    symlink("one", folder.path().join("data/link")).unwrap();
    let data_dir = data_dir(folder.path());
    let [one, link, other] = ["one", "link", "other"].map(name);
    // With two stores, the second lock would wait for the first one forever.
    let stores = data_dir.create(&[&one, &link, &other]).unwrap();
    let ip = "10.0.0.2".parse().unwrap();
    let by_one = stores.get(&one).unwrap().reserve(ip, &attachment("c1"));
    assert_eq!(by_one.unwrap(), Reserved::Now);
    let by_link = stores.get(&link).unwrap().state(ip);
    assert!(by_link.is_some());
    assert!(stores.get(&other).unwrap().state(ip).is_none());
    assert!(stores.get(&name("missing")).is_none());
}

#[test]
fn a_data_dir_that_can_not_be_read_is_not_an_empty_one() {
    let folder = TempDir::new().unwrap();
    // No path: it has a zero.
    let data_dir = data_dir(&folder.path().join("no\0where"));
    assert!(data_dir.names().is_err());
    assert!(data_dir.states(&name("net")).is_err());
}
