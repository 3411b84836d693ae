//! Tools that the demo uses if the machine has them. A missing one is named, and the
//! demo goes on without it.

use std::env;
use std::path::Path;

use harness::{Node, REFERENCE_PLUGINS, is_root, reference};

/// Programs that make a container's network namespace, and their Debian packages.
const FOR_A_NODE: [(&str, &str); 4] = [
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
];

/// Tools that the machine has.
pub(crate) struct Tools {
    /// A node for containers that are network namespaces.
    pub(crate) node: Option<Node>,
    /// True if the containers can ping each other.
    pub(crate) ping: bool,
}

impl Tools {
    /// No tool is used.
    pub(crate) fn none() -> Self {
        Self {
            node: None,
            ping: false,
        }
    }

    /// Looks for the tools, and says which are used and which are missing.
    pub(crate) fn find() -> Self {
        let node = match node() {
            Ok(node) => {
                println!(
                    "As root, with {REFERENCE_PLUGINS}/bridge: the containers and their node are \
                     network\nnamespaces, which are removed at the end."
                );
                Some(node)
            }
            Err(reason) => {
                println!(
                    "No network namespaces: {reason}.\n\
                     The demo runs the chain itself, as ipam-delegated does."
                );
                None
            }
        };
        let ping = node.is_some() && is_on_path("ping");
        if node.is_some() && !ping {
            println!("No pings: ping isn't installed (Debian: iputils-ping).");
        }
        Self { node, ping }
    }
}

/// A node with the namespaces of two containers, or why there is none.
fn node() -> Result<Node, String> {
    if !is_root() {
        return Err("this isn't run by root".to_owned());
    }
    if reference("bridge").is_none() {
        return Err("the reference plugin bridge isn't installed\n\
             (Debian: containernetworking-plugins)"
            .to_owned());
    }
    for (tool, package) in FOR_A_NODE {
        if !is_on_path(tool) {
            return Err(format!("{tool} isn't installed (Debian: {package})"));
        }
    }
    let node = Node::try_new()?;
    if !node.succeeds("ip netns add c1; ip netns add c2") {
        return Err("ip can't make network namespaces here".to_owned());
    }
    Ok(node)
}

fn is_on_path(tool: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| is_file(&folder.join(tool)))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file())
}
