//! Builds the executables that tests run, as debug builds, when the first test needs them.
//!
//! `cargo xtask test` calls [`build_all`] before the tests, and sets [`BUILT`] for them: with
//! nextest, each test is a process that would ask cargo again.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use rustix::fs::{FlockOperation, flock};

use crate::{
    DHCP_RENEWER, DOCKER_DAEMON, Executable, Flavour, Form, INSTALLER, IPAMCTL, MULTI_CALL,
    NETWORK_EXECUTABLES, PLUGINS, TARGET, cargo, cargo_by_hand, debug_dir, network_plugins,
    target_dir,
};

/// The environment variable with a folder of executables that are built already: `normal` and
/// `verbose`, each with `one-file`, `separate`, and the executables that aren't plugins.
pub const BUILT: &str = "IPAM_DELEGATED_BUILT";

/// The arguments for cargo that select the verbose flavour.
const VERBOSE: &[&str] = &["--features", "verbose"];

/// Delegates and plugins that are examples.
const EXAMPLES: [&str; 3] = ["with-a-defect", "ipam-da-table", "ipam-ds-labels"];

/// A set of executables that one call of cargo builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Set {
    /// [`MULTI_CALL`] and `ipamctl`.
    Normal,
    /// [`MULTI_CALL`], verbose.
    Verbose,
    /// [`NETWORK_EXECUTABLES`].
    Network,
    /// [`NETWORK_EXECUTABLES`], verbose.
    VerboseNetwork,
    /// An executable that isn't a plugin.
    Single(&'static str),
    /// [`EXAMPLES`].
    Examples,
}

impl Set {
    /// All sets of each flavour. The normal one's executables stay in cargo's folder.
    const ALL: [&[Self]; 2] = [
        &[Self::Verbose, Self::VerboseNetwork],
        &[
            Self::Normal,
            Self::Network,
            Self::Single(DHCP_RENEWER),
            Self::Single(DOCKER_DAEMON),
            Self::Single(INSTALLER),
            Self::Examples,
        ],
    ];

    /// What `cargo build` is to build besides the first example.
    fn targets(self) -> Vec<&'static str> {
        let network = || NETWORK_EXECUTABLES.map(|executable| executable.file);
        let executables = match self {
            Self::Normal => vec![MULTI_CALL.file, IPAMCTL],
            Self::Verbose => vec![MULTI_CALL.file],
            Self::Network | Self::VerboseNetwork => network().to_vec(),
            Self::Single(name) => vec![name],
            Self::Examples => {
                let others = EXAMPLES[1..].iter().flat_map(|name| ["--example", name]);
                return others.collect();
            }
        };
        let executables = executables.into_iter();
        executables.flat_map(|name| ["--bin", name]).collect()
    }

    fn flavour(self) -> Flavour {
        match self {
            Self::Verbose | Self::VerboseNetwork => Flavour::Verbose,
            _ => Flavour::Normal,
        }
    }

    /// The set that contains this executable.
    fn of(executable: &str, flavour: Flavour) -> Self {
        let single = [DHCP_RENEWER, DOCKER_DAEMON, INSTALLER];
        if let Some(name) = single.into_iter().find(|name| *name == executable) {
            return Self::Single(name);
        }
        let is_network = network_plugins().any(|plugin| plugin == executable);
        match (is_network, flavour) {
            (true, Flavour::Verbose) => Self::VerboseNetwork,
            (true, Flavour::Normal) => Self::Network,
            (false, Flavour::Verbose) => Self::Verbose,
            (false, Flavour::Normal) => Self::Normal,
        }
    }

    /// Builds it, if that was not done before by this process or by [`build_all`].
    fn build_once(self) {
        static DONE: Mutex<BTreeSet<Set>> = Mutex::new(BTreeSet::new());
        if env::var_os(BUILT).is_some() {
            return;
        }
        // A failed build has poisoned the lock: each test then fails with cargo's message.
        let mut done = DONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !done.contains(&self) {
            Self::build(&[self]);
            done.insert(self);
        }
    }

    /// Builds sets of one flavour: of all that a run builds, each dependency has one set of features,
    /// that of the workspace and its tests, so it is compiled once. An example is what needs the tests'
    /// dependencies.
    fn build(sets: &[Self]) {
        let lock = File::create(make(&target_dir()).join("executables-of-tests.lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let mut build = cargo();
        build.args(["build", "--quiet", "--workspace", "--example", EXAMPLES[0]]);
        build.args(sets.iter().flat_map(|set| set.targets()));
        if sets[0].flavour() == Flavour::Verbose {
            build.args(VERBOSE);
        }
        let status = build.status().unwrap();
        assert!(status.success(), "{build:?} fails");
        sets.iter().copied().for_each(Self::put);
    }

    /// Links and copies what cargo has built, since the next set replaces it in cargo's folder.
    fn put(self) {
        let built = |name: &str| debug_dir().join(name);
        let folder = make(&folder(self.flavour()));
        match self {
            Self::Normal | Self::Verbose => {
                let multi_call = built(MULTI_CALL.file);
                put_plugins(&multi_call, &folder);
                replace(&folder.join(MULTI_CALL.file), |new| {
                    fs::hard_link(&multi_call, new)
                });
                if self == Self::Normal {
                    replace(&folder.join(IPAMCTL), |new| {
                        fs::hard_link(built(IPAMCTL), new)
                    });
                }
            }
            Self::Network | Self::VerboseNetwork => {
                for Executable { file, plugins, .. } in NETWORK_EXECUTABLES {
                    for name in plugins {
                        replace(&folder.join(name), |new| fs::hard_link(built(file), new));
                    }
                }
            }
            Self::Single(name) => {
                replace(&folder.join(name), |new| fs::hard_link(built(name), new));
            }
            Self::Examples => {}
        }
    }
}

/// The multi-call executable in both forms: `one-file` has hard links, so delegates are linked,
/// and `separate` has copies, which are other files, so delegates are executed.
fn put_plugins(multi_call: &Path, folder: &Path) {
    let [one_file, separate] = ["one-file", "separate"].map(|form| make(&folder.join(form)));
    let inode = |path: &Path| fs::metadata(path).map(|metadata| metadata.ino()).ok();
    let last = one_file.join(PLUGINS[PLUGINS.len() - 1]);
    if inode(&last) == inode(multi_call) {
        return;
    }
    for name in PLUGINS {
        replace(&separate.join(name), |new| {
            fs::copy(multi_call, new).map(drop)
        });
        replace(&one_file.join(name), |new| fs::hard_link(multi_call, new));
    }
}

/// Replaces a file in one step: tests of another process may run it.
fn replace(file: &Path, make: impl FnOnce(&Path) -> io::Result<()>) {
    let new = file.with_extension("new");
    let _ = fs::remove_file(&new);
    make(&new)
        .and_then(|()| fs::rename(&new, file))
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    // If both are links to one file already, `rename` leaves both.
    let _ = fs::remove_file(new);
}

fn make(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    folder.to_owned()
}

/// The folder of a flavour's executables.
fn folder(flavour: Flavour) -> PathBuf {
    let all = env::var_os(BUILT).map_or_else(folder_of_builds, PathBuf::from);
    all.join(match flavour {
        Flavour::Normal => "normal",
        Flavour::Verbose => "verbose",
    })
}

/// The folder of [`build_all`].
pub fn folder_of_builds() -> PathBuf {
    target_dir().join("executables-of-tests")
}

/// The folder of a flavour's plugins in a form, with an executable for each of [`PLUGINS`].
pub fn plugins(flavour: Flavour, form: Form) -> PathBuf {
    Set::of(MULTI_CALL.file, flavour).build_once();
    folder(flavour).join(match form {
        Form::Separate => "separate",
        Form::OneFile => "one-file",
    })
}

/// The path of an executable that isn't one of [`PLUGINS`].
pub fn executable(name: &str, flavour: Flavour) -> PathBuf {
    Set::of(name, flavour).build_once();
    folder(flavour).join(name)
}

/// The path of an example's executable.
pub fn example(name: &str) -> PathBuf {
    Set::Examples.build_once();
    debug_dir().join("examples").join(name)
}

/// The folder of the verbose plugins in one file that is linked to the shared C library.
pub(crate) fn dynamic_plugins() -> PathBuf {
    if env::var_os(TARGET).is_none() {
        return plugins(Flavour::Verbose, Form::OneFile);
    }
    let folder = folder_of_builds().join("dynamic");
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let mut build = cargo_by_hand();
        build.args(["build", "--quiet", "--package", MULTI_CALL.package]);
        let status = build.args(VERBOSE).status().unwrap();
        assert!(status.success(), "{build:?} fails");
        let built = target_dir().join("debug").join(MULTI_CALL.file);
        put_plugins(&built, &make(&folder));
    });
    folder.join("one-file")
}

/// Builds all executables of all targets, for [`BUILT`].
pub fn build_all() {
    for sets in Set::ALL {
        Set::build(sets);
    }
    dynamic_plugins();
}
