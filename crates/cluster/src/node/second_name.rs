//! Refuses a second name of this machine in one boot, if `ipam.node` doesn't give it.
//!
//! Under another name, DEL and GC would find none of this machine's addresses, and would succeed
//! without releasing them. A name that isn't in the configuration may change by accident: the
//! kubeconfig doesn't name the node any more, or the host has got another name.

use std::io::ErrorKind;

use cni::{Environment, Error};
use state_files::names_in;

use super::boot_file::{self, BootFile};
use super::token_file::TokenFile;
use crate::Node;

/// Fails if this machine has registered another name in this boot and not this one, unless a
/// person has given it this one by `ipam.node`.
///
/// # Errors
///
/// Code 7, with both names; code 5 for a file that can't be read.
pub(crate) fn refuse_second_name(node: &Node, environment: &Environment) -> Result<(), Error> {
    if node.is_named {
        return Ok(());
    }
    let others = others(node, environment)?;
    let Some(known) = others.first().map(|other| other.name.as_str()) else {
        return Ok(());
    };
    if BootFile::open(node)?.read(environment)?.is_some() {
        return Ok(());
    }
    let refused = Error::config(format!(
        "ipam.node is missing, and this machine is now {:?}, but has registered as {known:?} since its boot: what it holds as {known:?} would not be released",
        node.name
    ));
    Err(refused.with_details(format!(
        "give it the name {known:?} again: write ipam.node, or correct the host's name or the node in the kubeconfig. If the new name is right, and no container runs here: ipamctl node-register, here, and ipamctl node-forget {known}, on any node"
    )))
}

/// Forgets that this machine has registered other names in this boot, because a person has decided
/// so.
///
/// # Errors
///
/// Code 5.
pub(crate) fn forget_other_names(node: &Node, environment: &Environment) -> Result<(), Error> {
    for other in others(node, environment)? {
        BootFile::open(&other)?.remove()?;
    }
    Ok(())
}

/// The other names that this disk has registered in this boot.
fn others(node: &Node, environment: &Environment) -> Result<Vec<Node>, Error> {
    let files = match names_in(&node.cache_dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(|error| Error::io(node.cache_dir.display(), error))?,
    };
    let names = files
        .iter()
        .filter_map(|file| boot_file::node_of(node, file));
    let mut others = Vec::new();
    for name in names.filter(|name| *name != node.name) {
        let other = Node {
            name: name.to_owned(),
            ..node.clone()
        };
        let Some(registration) = BootFile::open(&other)?.read(environment)? else {
            continue;
        };
        // The file may be of another disk, or of another prefix.
        if TokenFile::open(&other)?.is_of(&other.name, &registration.token)? {
            others.push(other);
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::node::machine::{Machine, Registration};

    fn node(folder: &Path, prefix: &str, name: &str) -> Node {
        Node {
            name: name.to_owned(),
            is_named: false,
            state_dir: folder.join("state"),
            cache_dir: folder.join("cache"),
            prefix: prefix.to_owned(),
            endpoints: Vec::new(),
            timeout: Duration::from_secs(1),
        }
    }

    /// Writes the files of a registration.
    fn register(node: &Node, environment: &Environment) {
        let disk = TokenFile::open(node).unwrap();
        let registered = disk.locked(Duration::ZERO, |known| {
            let machine = Machine::this(environment)?;
            let registration = Registration::new(known.token(), "i".to_owned(), machine);
            known.sends(&registration.to_value(), None)?;
            BootFile::open(node)?.write(&registration)
        });
        registered.unwrap().unwrap();
    }

    #[test]
    fn a_second_name_is_told_from_another_prefix_another_disk_and_a_decision() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::default();
        let refused = |node: &Node| refuse_second_name(node, &environment).is_err();
        let node = |prefix: &str, name: &str| node(folder.path(), prefix, name);
        let [first, second] = ["n1", "n2"].map(|name| node("/ipam", name));
        assert!(!refused(&first));
        register(&node("/ipam/x", "n1"), &environment);
        assert!(!refused(&first));
        register(&first, &environment);
        assert!(refused(&second) && !refused(&first) && !refused(&node("/other", "n2")));
        let named = Node {
            is_named: true,
            ..second.clone()
        };
        assert!(!refused(&named));
        forget_other_names(&second, &environment).unwrap();
        assert!(!refused(&second) && refused(&node("/ipam/x", "n2")));

        register(&first, &environment);
        fs::remove_dir_all(&first.state_dir).unwrap();
        assert!(!refused(&second));
    }
}
