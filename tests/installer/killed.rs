//! Kills the image's entry point before each of its system calls: while it replaces one version,
//! catalogue and conflist by another, and while it removes them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use harness::call_points::points;
use harness::{
    Call, Installation, PLUGINS, names, needs, one_inode, plugin_of_version, sample, unmarked,
    write_executable,
};
use serde_json::json;

/// Kills a call at each point. Prepares the node before each point, and examines it after.
fn walk(
    installation: &Installation,
    call: impl Fn() -> Call,
    prepare: impl Fn(),
    examine: impl Fn(&str),
) {
    prepare();
    let trace = installation.path("trace");
    call().traced(&trace, &[]).run().nothing();
    // The work begins when the first folder is locked.
    let points = points(&trace, "flock(", |call| !call.is_without_effect());
    assert!(points.len() > 40, "{points:?}");
    let points = sample(points);
    let mut killed = 0;
    for point in &points {
        prepare();
        let output = call().injected(&point.to_string()).run();
        killed += usize::from(output.status.signal() == Some(9));
        examine(&point.to_string());
    }
    assert!(killed * 2 > points.len(), "{killed} of {}", points.len());
}

/// A ConfigMap of each kind, as it is mounted, and its arguments.
struct Configuration {
    arguments: [String; 2],
    /// Two files that must be of one version.
    catalogue: [String; 2],
    conflist: String,
}

impl Configuration {
    /// The configuration whose pool has this number.
    fn new(installation: &Installation, number: u8) -> Self {
        let catalogue = [
            format!(r#"{{"pools": {{"p{number}": {{"subnet": "10.{number}.0.0/24"}}}}}}"#),
            format!(r#"{{"rules": [{{"pools": ["p{number}"]}}]}}"#),
        ];
        let folder = installation.path(&format!("config-{number}"));
        let ipam = json!({
            "type": "ipam-delegated",
            "delegates": ["ipam-ds-rules", "ipam-da-host-local"],
            "poolsDir": installation.path("cni/ipam.d"),
            "dataDir": installation.sandbox.data_dir(),
            "stateDir": installation.sandbox.state_dir(),
        });
        let bridge = json!({"type": "bridge", "ipam": ipam});
        let name = format!("net{number}");
        let list = json!({"cniVersion": "1.0.0", "name": name, "plugins": [bridge]});
        let conflist = list.to_string();
        for (name, content) in [
            ("pools/10-pools.json", &catalogue[0]),
            ("pools/20-rules.json", &catalogue[1]),
            ("conflists/10-net.conflist", &conflist),
        ] {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let from = |kind: &str| format!("--{kind}-from={}", folder.join(kind).display());
        Self {
            arguments: ["pools", "conflists"].map(from),
            catalogue,
            conflist,
        }
    }

    fn call(&self, installation: &Installation, release: &Path) -> Call {
        let [pools, conflists] = &self.arguments;
        installation.call(release, &["--once", pools, conflists])
    }

    /// True if the node has this catalogue.
    fn has_catalogue(&self, installation: &Installation) -> bool {
        let read =
            |name: &str| fs::read_to_string(installation.path("cni/ipam.d").join(name)).unwrap();
        ["10-pools.json", "20-rules.json"].map(|name| unmarked(&read(name))) == self.catalogue
    }

    /// True if the node has this conflist.
    fn has_conflist(&self, installation: &Installation) -> bool {
        let file = installation.path("cni/net.d/10-net.conflist");
        unmarked(&fs::read_to_string(file).unwrap()) == self.conflist
    }
}

/// A node with a foreign main plugin.
fn node() -> Installation {
    let installation = Installation::default();
    fs::create_dir_all(installation.sandbox.plugins()).unwrap();
    write_executable(
        &installation.sandbox.plugins().join("bridge"),
        "#!/bin/sh\n",
    );
    fs::create_dir_all(installation.path("cni/net.d")).unwrap();
    installation
}

/// Number of entries of a folder of the node.
fn entries(installation: &Installation, folder: &str) -> usize {
    fs::read_dir(installation.path(folder)).unwrap().count()
}

#[test]
fn at_every_point_each_name_is_a_whole_file_and_the_next_installation_completes() {
    needs!("trace");
    let installation = node();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    let [first, second] = [1, 2].map(|number| Configuration::new(&installation, number));
    let call = || second.call(&installation, &new);
    let versions = ["1.0.0", "2.0.0"].map(plugin_of_version);
    let examine = |point: &str| {
        for (plugin, content) in PLUGINS.iter().zip(installation.installed()) {
            let content = content.unwrap_or_else(|| panic!("{plugin} is missing: {point}"));
            assert!(
                versions.contains(&content),
                "{plugin} at {point}: {content}"
            );
        }
        let both = [&first, &second];
        assert!(
            both.iter().any(|used| used.has_catalogue(&installation)),
            "{point}"
        );
        assert!(
            both.iter().any(|used| used.has_conflist(&installation)),
            "{point}"
        );
        call().run().nothing();
        assert!(
            installation.is_installed("2.0.0")
                && second.has_catalogue(&installation)
                && second.has_conflist(&installation),
            "{point}"
        );
        one_inode(&installation.sandbox.plugins());
        let plugins = fs::read_dir(installation.sandbox.plugins())
            .unwrap()
            .count();
        assert_eq!(plugins, PLUGINS.len() + 1, "{point}");
        // The folder has the catalogue and the conflists' folder.
        assert_eq!(entries(&installation, "cni"), 2, "{point}");
        assert_eq!(entries(&installation, "cni/net.d"), 1, "{point}");
    };
    let prepare = || first.call(&installation, &old).run().nothing();
    walk(&installation, call, prepare, examine);
}

#[test]
fn a_removal_that_is_killed_is_completed_by_the_next_one() {
    needs!("trace");
    let installation = node();
    let release = installation.release("1.0.0");
    let configuration = Configuration::new(&installation, 1);
    let remove = || installation.call(&release, &["--uninstall"]);
    let whole = plugin_of_version("1.0.0");
    let examine = |point: &str| {
        let installed = installation.installed();
        assert!(
            installed.iter().flatten().all(|content| *content == whole),
            "{point}: {installed:?}"
        );
        // A conflist never exists without its plugins and its catalogue.
        if installation.path("cni/net.d/10-net.conflist").exists() {
            assert!(installation.is_installed("1.0.0"), "{point}");
            assert!(configuration.has_catalogue(&installation), "{point}");
        }
        remove().run().nothing();
        assert_eq!(names(installation.sandbox.plugins()), ["bridge"], "{point}");
        assert!(!installation.path("cni/ipam.d").exists(), "{point}");
        assert_eq!(entries(&installation, "cni/net.d"), 0, "{point}");
    };
    let prepare = || configuration.call(&installation, &release).run().nothing();
    walk(&installation, remove, prepare, examine);
}
