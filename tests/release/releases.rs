//! Content of a release's archives.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{
    DOCKER_DAEMON, Flavour, IPAM_DELEGATED, IPAMCTL, PLUGINS, Release, dist, names, needs,
    network_plugins, one_inode, repository, segment_types,
};
use tempfile::TempDir;

const FLAVOURS: [Flavour; 2] = [Flavour::Normal, Flavour::Verbose];

fn extracted(flavour: Flavour) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let top = Release::of(flavour).extract(folder.path());
    (folder, top)
}

/// Bytes of the multi-call executable.
fn executable(top: &Path) -> Vec<u8> {
    fs::read(top.join("bin").join(IPAM_DELEGATED)).unwrap()
}

/// Checks that an executable is loaded without another file, to which PT_INTERP or PT_DYNAMIC would
/// lead.
#[track_caller]
pub(crate) fn assert_static(path: &Path) {
    let types = segment_types(&fs::read(path).unwrap());
    assert!(types.contains(&1), "nothing to load: {types:?}");
    assert!(!types.contains(&2) && !types.contains(&3), "{types:?}");
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| text.trim().to_owned())
}

#[test]
fn sha256sum_accepts_the_archives_and_the_images() {
    needs!("dist");
    let mut check = Command::new("sha256sum");
    check
        .args(["-c", "SHA256SUMS"])
        .current_dir(dist().unwrap());
    let said = output(&mut check).expect("a sum is wrong");
    let names = names(dist().unwrap()).into_iter();
    let expected: Vec<String> = names
        .filter(|name| name != "SHA256SUMS")
        .map(|name| format!("{name}: OK"))
        .collect();
    // An archive, an image and a Debian package.
    assert_eq!(expected.len(), 3 * FLAVOURS.len());
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_plugins_are_one_executable_that_needs_no_other_file() {
    needs!("dist");
    for flavour in FLAVOURS {
        let (_folder, top) = extracted(flavour);
        let bin = top.join("bin");
        one_inode(&bin);
        let mode = fs::metadata(bin.join(IPAM_DELEGATED))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
        assert_static(&bin.join(IPAM_DELEGATED));
    }
}

#[test]
fn ipamctl_is_in_sbin_with_its_pages_and_units_and_not_among_the_plugins() {
    needs!("dist");
    for flavour in FLAVOURS {
        let (_folder, top) = extracted(flavour);
        let names = BTreeSet::from_iter(names(top.join("bin")));
        let plugins = PLUGINS.into_iter().chain(network_plugins());
        assert_eq!(names, plugins.map(str::to_owned).collect());
        let tool = top.join("sbin").join(IPAMCTL);
        assert_static(&tool);
        let help = output(Command::new(&tool).arg("--help")).unwrap();
        assert!(help.contains("gc"), "{help}");
        for file in [
            "share/man/man8/ipamctl.8",
            "share/man/man8/ipamctl-gc.8",
            "share/bash-completion/completions/ipamctl",
            "share/zsh/site-functions/_ipamctl",
            "share/fish/vendor_completions.d/ipamctl.fish",
            "lib/systemd/system/ipamctl-gc.timer",
            "lib/systemd/system/ipamctl-gc.service",
            "lib/systemd/system/ipam-dhcp-renew.service",
            "sbin/ipam-dhcp-renew",
        ] {
            assert!(fs::metadata(top.join(file)).unwrap().len() > 100, "{file}");
        }
        // Crates that only the tool links are not in the plugins.
        let plugins = executable(&top);
        assert!(!contains(&plugins, "clap") && contains(&fs::read(tool).unwrap(), "clap"));
    }
}

#[test]
fn only_the_plugins_of_engines_and_servers_have_a_network_client() {
    needs!("dist");
    for flavour in FLAVOURS {
        let (_folder, top) = extracted(flavour);
        let one_file = executable(&top);
        for plugin in network_plugins() {
            // A text that each client contains.
            let client = match plugin {
                "ipam-da-etcd" => "etcdserverpb",
                "ipam-da-dhcp" => "no DHCP server answers",
                _ => "application/json;as=PartialObjectMetadataList",
            };
            assert!(!contains(&one_file, client));
            let path = top.join("bin").join(plugin);
            assert!(contains(&fs::read(&path).unwrap(), client), "{plugin}");
            assert_static(&path);
        }
    }
}

#[test]
fn version_names_the_version_and_the_commit() {
    needs!("dist");
    for flavour in FLAVOURS {
        let (_folder, top) = extracted(flavour);
        // The archive may be of an earlier commit than the one checked out now.
        let readme = fs::read_to_string(top.join("README.md")).unwrap();
        let (_, rest) = readme.split_once(", version ").unwrap();
        let said = rest.split(": ").next().unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let commit = match said.split_once(", commit ") {
            Some((number, commit)) => {
                assert_eq!(number, version);
                let known = commit.trim_end_matches("-dirty");
                assert!(known.len() >= 12, "{commit}");
                let mut git = Command::new("git");
                git.args(["merge-base", "--is-ancestor", known, "HEAD"]);
                assert!(output(git.current_dir(repository())).is_some(), "{git:?}");
                commit.to_owned()
            }
            // It was built without a repository.
            None => "unknown commit".to_owned(),
        };
        let flavour = match flavour {
            Flavour::Normal => "normal",
            Flavour::Verbose => "verbose",
        };
        for plugin in PLUGINS {
            let mut command = Command::new(top.join("bin").join(plugin));
            let expected = format!("{plugin} {version} ({commit}, {flavour})");
            assert_eq!(output(command.arg("--version")).unwrap(), expected);
        }
    }
}

#[test]
fn no_path_of_the_machine_that_built_it_is_in_it() {
    needs!("dist");
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    for flavour in FLAVOURS {
        let (_folder, top) = extracted(flavour);
        let elf = executable(&top);
        for path in cargo.iter().chain([&repository()]) {
            let path = path.to_str().unwrap();
            assert!(!contains(&elf, path), "{path}");
        }
        // The search finds such a path if there is one.
        assert!(contains(&elf, "/crates/serde_json-"));
    }
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    let needle = needle.as_bytes();
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[test]
fn the_licence_of_all_that_is_linked_in_is_there() {
    needs!("dist");
    for flavour in FLAVOURS {
        let (_folder, top) = extracted(flavour);
        let project = fs::read(repository().join("LICENSE")).unwrap();
        assert_eq!(fs::read(top.join("LICENSE")).unwrap(), project);
        let overview = fs::read_to_string(top.join("LICENSES/OVERVIEW.md")).unwrap();
        let mut parts = BTreeSet::new();
        for row in overview
            .lines()
            .filter(|line| line.starts_with("| "))
            .skip(1)
        {
            let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
            let [part, licence, texts] = cells[..] else {
                panic!("{row}")
            };
            assert!(!licence.is_empty(), "{row}");
            parts.insert(part.to_owned());
            // A machine may lack the licence of its C library; then the overview says so.
            if texts.contains("missing") && !part.contains('-') {
                continue;
            }
            for text in texts.split(", ") {
                let text = fs::read_to_string(top.join("LICENSES").join(part).join(text));
                assert!(!text.unwrap_or_default().is_empty(), "{row}");
            }
        }
        assert!(
            parts
                .iter()
                .any(|part| part.starts_with("rust-standard-library-1."))
        );
        // A crate that only tests link is not in the list.
        let is_linked = |name: &str| parts.iter().any(|part| part.starts_with(name));
        assert!(is_linked("tracing-subscriber-") && !is_linked("tempfile-"));
        // The executable names the sources of these crates in its panic messages.
        let elf = executable(&top);
        let elf = String::from_utf8_lossy(&elf);
        let named = elf
            .split("/crates/")
            .skip(1)
            .filter_map(|path| path.split('/').next());
        let named: BTreeSet<String> = named.map(str::to_owned).collect();
        assert!(named.len() > 5, "{named:?}");
        assert!(named.is_subset(&parts), "{named:?}\n{parts:?}");
    }
}

#[test]
fn the_daemon_for_docker_is_static_and_comes_with_its_units() {
    needs!("dist");
    let (_folder, top) = extracted(Flavour::Normal);
    let daemon = top.join("sbin").join(DOCKER_DAEMON);
    assert_static(&daemon);
    let version = output(Command::new(&daemon).arg("--version")).unwrap();
    let name = format!("{DOCKER_DAEMON} {} (", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&name), "{version}");
    for unit in ["service", "socket"] {
        let unit = top.join(format!("lib/systemd/system/{DOCKER_DAEMON}.{unit}"));
        assert!(fs::read_to_string(unit).unwrap().contains("[Install]"));
    }
}
