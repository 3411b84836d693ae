//! The image: its format, and its use from load to removal, the same for each container engine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::waiting::{wait_for_value, wait_or_say};
use harness::{
    Flavour, INSTALLER, IPAM_DELEGATED, IPAMCTL, Image, NETWORK_EXECUTABLES, PLUGINS, Release,
    Sandbox, assert_has, names, needs, network_plugins, one_inode,
};
use serde_json::Value;

use crate::releases::assert_static;

const FLAVOURS: [Flavour; 2] = [Flavour::Normal, Flavour::Verbose];

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The checksum of a file, by a foreign program.
fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split(' ').next().unwrap().to_owned()
}

#[test]
fn each_blob_is_what_its_name_says_and_both_manifests_lead_to_the_same() {
    needs!("dist");
    for flavour in FLAVOURS {
        let image = Image::of(flavour);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        image.extract(root);
        let blobs = root.join("blobs/sha256");
        let mut left: BTreeSet<PathBuf> = BTreeSet::new();
        for entry in fs::read_dir(&blobs).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(sha256(&path), path.file_name().unwrap().to_str().unwrap());
            left.insert(path);
        }
        assert_eq!(
            json(&root.join("oci-layout"))["imageLayoutVersion"],
            "1.0.0"
        );
        let mut follow = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let path = blobs.join(digest.strip_prefix("sha256:").unwrap());
            assert_eq!(
                fs::metadata(&path).unwrap().len(),
                descriptor["size"].as_u64().unwrap()
            );
            assert!(left.remove(&path), "{digest}");
            path
        };
        let index = json(&root.join("index.json"));
        let entry = &index["manifests"][0];
        assert_eq!(
            entry["annotations"]["io.containerd.image.name"],
            image.name.as_str()
        );
        let manifest = json(&follow(entry));
        let [config, layer] = [&manifest["config"], &manifest["layers"][0]].map(&mut follow);
        assert!(left.is_empty(), "{left:?}");
        let docker = json(&root.join("manifest.json"));
        assert_eq!(docker[0]["RepoTags"][0], image.name.as_str());
        assert_eq!(root.join(docker[0]["Config"].as_str().unwrap()), config);
        assert_eq!(root.join(docker[0]["Layers"][0].as_str().unwrap()), layer);
        let tar = root.join("layer.tar");
        let unpack = format!("gzip -dc {} > {}", layer.display(), tar.display());
        assert!(
            Command::new("sh")
                .args(["-c", &unpack])
                .status()
                .unwrap()
                .success()
        );
        let config = json(&config);
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            format!("sha256:{}", sha256(&tar))
        );
        assert_eq!(config["config"]["Entrypoint"][0], format!("/{INSTALLER}"));
    }
}

#[test]
fn its_files_are_static_and_its_plugins_those_of_the_archive() {
    needs!("dist");
    for flavour in FLAVOURS {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        Image::of(flavour).files(&files);
        let released = Release::of(flavour).extract(folder.path());
        one_inode(&files.join("plugins"));
        for (ours, theirs) in [
            (
                format!("plugins/{IPAM_DELEGATED}"),
                format!("bin/{IPAM_DELEGATED}"),
            ),
            (format!("sbin/{IPAMCTL}"), format!("sbin/{IPAMCTL}")),
        ] {
            let same =
                fs::read(files.join(&ours)).unwrap() == fs::read(released.join(theirs)).unwrap();
            assert!(same, "{ours}");
        }
        assert_static(&files.join(INSTALLER));
        let overview = fs::read_to_string(files.join("LICENSES/OVERVIEW.md")).unwrap();
        assert!(overview.contains("| kube-") && !overview.contains("| tempfile-"));
        let expected = [
            "LICENSE",
            "LICENSES",
            INSTALLER,
            "network-plugins",
            "plugins",
            "run",
            "sbin",
            "var",
        ];
        assert_eq!(names(&files), expected);
    }
}

/// A container engine with the command line of Docker.
pub(crate) struct Engine<'a> {
    /// Creates a command of it.
    pub(crate) command: &'a dyn Fn(&[&str]) -> Command,
    /// Further options of `run`.
    pub(crate) options: Vec<String>,
    /// Folders of the node.
    pub(crate) sandbox: &'a Sandbox,
}

impl Engine<'_> {
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = (self.command)(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A folder of the node, and its path in a container.
    fn folders(&self) -> [(PathBuf, &'static str); 3] {
        let root = self.sandbox.root();
        [
            (root.join("node/opt-cni"), "/opt/cni"),
            (root.join("node/etc-cni"), "/etc/cni"),
            (root.join("node/var-lib-cni"), "/var/lib/cni"),
        ]
    }

    /// Runs an image like the manifest: without capabilities, read-only.
    fn run(&self, options: &[&str], image: &str, words: &[&str]) -> Output {
        let mounts = self.folders().map(|(folder, path)| {
            fs::create_dir_all(&folder).unwrap();
            format!("--volume={}:{path}", folder.display())
        });
        let mut all = vec!["run", "--network=none", "--cap-drop=ALL", "--read-only"];
        all.extend([
            "--security-opt=no-new-privileges",
            "--tmpfs=/run/ipam-installer",
        ]);
        all.extend(mounts.iter().map(String::as_str));
        all.extend(self.options.iter().map(String::as_str));
        all.extend(options);
        all.push(image);
        all.push("--sbin=/opt/cni/sbin");
        all.extend(words);
        (self.command)(&all).output().unwrap()
    }

    /// Starts a container that keeps running, and waits until it is ready; returns the output of a
    /// probe.
    #[track_caller]
    fn stay(&self, image: &str) -> String {
        let output = self.run(&["--detach", "--name=stays"], image, &[]);
        assert!(output.status.success(), "{output:?}");
        let probe = || {
            let probe = ["exec", "stays", "/ipam-installer", "--probe"];
            (self.command)(&probe).output().unwrap()
        };
        let ready = wait_for_value(probe, |output| output.status.success());
        String::from_utf8(ready.stdout).unwrap()
    }

    fn plugins(&self) -> PathBuf {
        self.folders()[0].0.join("bin")
    }

    /// Checks that the plugins of this flavour are installed.
    #[track_caller]
    fn assert_installed(&self, flavour: Flavour) {
        let folder = tempfile::tempdir().unwrap();
        let released = Release::of(flavour).extract(folder.path());
        for plugin in PLUGINS.into_iter().chain(network_plugins()) {
            let ours = fs::read(self.plugins().join(plugin)).unwrap();
            assert!(
                ours == fs::read(released.join("bin").join(plugin)).unwrap(),
                "{plugin}"
            );
            let owner = fs::metadata(self.plugins().join(plugin)).unwrap();
            assert_eq!((owner.uid(), owner.mode() & 0o7777), (0, 0o755));
        }
        one_inode(&self.plugins());
        let tool = self.folders()[0].0.join("sbin").join(IPAMCTL);
        assert!(fs::read(tool).unwrap() == fs::read(released.join("sbin").join(IPAMCTL)).unwrap());
    }
}

/// Loads both images; installs, repairs, upgrades and removes.
pub(crate) fn from_load_to_removal(engine: &Engine<'_>) {
    let [normal, verbose] = FLAVOURS.map(Image::of);
    for image in [&normal, &verbose] {
        let said = engine.ok(&["load", "--input", image.file.to_str().unwrap()]);
        assert!(said.contains(&image.name), "{said}");
    }
    let once = engine.run(&["--rm"], &normal.name, &["--once"]);
    assert!(once.status.success(), "{once:?}");
    engine.assert_installed(Flavour::Normal);

    let said = engine.stay(&normal.name);
    assert!(
        said.starts_with("ready: 0.") && said.contains(", normal)"),
        "{said}"
    );
    for plugin in [PLUGINS[1], NETWORK_EXECUTABLES[1].file] {
        let removed = engine.plugins().join(plugin);
        fs::remove_file(&removed).unwrap();
        wait_or_say(|| removed.exists(), || engine.ok(&["logs", "stays"]));
    }
    engine.assert_installed(Flavour::Normal);
    // SIGTERM ends it, although it is the first process of its container: SIGKILL would be 137.
    engine.ok(&["stop", "--time=50", "stays"]);
    let code = ["inspect", "--format={{.State.ExitCode}}", "stays"];
    assert_eq!(engine.ok(&code), "0");
    engine.ok(&["rm", "stays"]);
    engine.assert_installed(Flavour::Normal);

    let said = engine.stay(&verbose.name);
    assert!(said.contains(", verbose)"), "{said}");
    engine.assert_installed(Flavour::Verbose);
    // The pod has the administrator's command.
    let said = engine.ok(&["exec", "stays", "ipamctl", "--version"]);
    assert!(said.starts_with("ipamctl 0."), "{said}");
    engine.ok(&["rm", "--force", "stays"]);

    let reservation = engine.folders()[2].0.join("networks/mynet/10.1.0.7");
    fs::create_dir_all(reservation.parent().unwrap()).unwrap();
    fs::write(&reservation, "8f3e52c1\r\neth0").unwrap();
    let refused = engine.run(&["--rm"], &verbose.name, &["--uninstall"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_has(&said, ["10.1.0.7", "8f3e52c1"]);
    engine.assert_installed(Flavour::Verbose);
    fs::remove_file(&reservation).unwrap();
    let removed = engine.run(&["--rm"], &verbose.name, &["--uninstall"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(fs::read_dir(engine.plugins()).unwrap().count(), 0);
}
