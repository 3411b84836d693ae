//! A network's directories in a temporary folder.

use std::net::IpAddr;
use std::path::Path;

use cni::{Attachment, NetworkName};
use ipam::Pool;
use reservations::DataDir;

pub(crate) fn name(text: &str) -> NetworkName {
    text.parse().unwrap()
}

pub(crate) fn attachment(container_id: &str) -> Attachment {
    Attachment {
        container_id: container_id.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

/// The directories of a network which is called `net`.
pub(crate) fn data_dir(folder: &Path) -> DataDir<'static> {
    DataDir {
        data_dir: folder.join("data"),
        network: name("net"),
        cancellation: None,
    }
}

/// A pool of one subnet.
pub(crate) fn pool(subnet: &str) -> Pool {
    let entry = format!(r#"{{"subnet":"{subnet}"}}"#);
    Pool::read("pool", serde_json::from_str(&entry).unwrap()).unwrap()
}

/// Reserves the first free address of 10.0.0.0/28 in a directory to a container.
pub(crate) fn reserve(folder: &Path, directory: &str, container_id: &str) -> IpAddr {
    let data_dir = data_dir(folder);
    let directory = name(directory);
    let stores = data_dir.create(&[&directory]).unwrap();
    let store = stores.get(&directory).unwrap();
    let pool = pool("10.0.0.0/28");
    let reserved = store.reserve_first(&pool.candidates(None), &attachment(container_id));
    reserved.unwrap().unwrap().0
}
