//! The image's entry point after an installation: it restores removed or replaced files, and
//! installs changes of a ConfigMap.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::{Installation, Node, PLUGINS, Staying, needs, plugin_of_version, write_executable};

use crate::installer::names;

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

#[track_caller]
fn wait_until(staying: &Staying, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{}", staying.log());
        sleep(Duration::from_millis(10));
    }
}

/// True if all plugins in a folder are links to one file; false also during a change.
fn is_one_file(folder: &Path) -> bool {
    let inodes = PLUGINS.map(|plugin| {
        fs::metadata(folder.join(plugin))
            .map(|file| file.ino())
            .ok()
    });
    inodes
        .iter()
        .all(|inode| inode.is_some() && *inode == inodes[0])
}

#[test]
fn what_is_removed_damaged_or_replaced_by_an_older_one_is_put_right() {
    let installation = Installation::default();
    let staying = installation.stay(&installation.release("2.0.0"), &[]);
    let plugins = installation.sandbox.plugins();
    let plugin = plugins.join(PLUGINS[2]);
    let right = || installation.is_installed("2.0.0") && is_one_file(&plugins);
    wait_until(&staying, right);
    staying.wait(|ready, _| ready);
    let older = plugin_of_version("1.9.9");
    let half = &plugin_of_version("2.0.0")[..20];
    let changes: [&dyn Fn(); 6] = [
        &|| fs::remove_file(&plugin).unwrap(),
        &|| write_executable(&plugin, &older),
        &|| write_executable(&plugin, half),
        &|| write_executable(&plugin, ""),
        &|| fs::set_permissions(&plugin, fs::Permissions::from_mode(0o600)).unwrap(),
        // Writes through the link that all plugins share.
        &|| fs::write(&plugin, &older).unwrap(),
    ];
    for change in changes {
        change();
        wait_until(&staying, || {
            let mode = fs::metadata(&plugin).map(|file| file.mode() & 0o777);
            right() && mode.is_ok_and(|mode| mode == 0o755)
        });
    }
    // Removes the folder itself. The entry point may restore the first plugin before the last one
    // is removed.
    let _ = fs::remove_dir_all(&plugins);
    wait_until(&staying, right);
    fs::rename(&plugins, installation.path("away")).unwrap();
    wait_until(&staying, right);
    staying.wait(|ready, said| ready && said.contains("ready: 2.0.0 (a1b2c3d4e5f6, normal)"));
    assert!(staying.terminate());
    assert!(installation.is_installed("2.0.0"));
}

#[test]
fn a_newer_plugin_and_a_foreign_file_stay_and_are_told() {
    let installation = Installation::default();
    let staying = installation.stay(&installation.release("2.0.0"), &[]);
    let plugin = installation.sandbox.plugins().join(PLUGINS[1]);
    let newer = plugin_of_version("2.1.0");
    write_executable(&plugin, &newer);
    staying.wait(|ready, said| !ready && said.contains("newer version 2.1.0"));
    assert_eq!(fs::read_to_string(&plugin).unwrap(), newer);
    write_executable(&plugin, "#!/bin/sh\nexit 0\n");
    let named = plugin.display().to_string();
    staying.wait(|ready, said| !ready && said.contains(&named));
    assert_eq!(fs::read_to_string(&plugin).unwrap(), "#!/bin/sh\nexit 0\n");
    fs::remove_file(&plugin).unwrap();
    staying.wait(|ready, _| ready);
    assert!(installation.is_installed("2.0.0"));
}

#[test]
fn of_two_that_stay_the_later_one_keeps_the_plugins_whatever_its_version() {
    let installation = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    let first = installation.stay(&new, &[]);
    first.wait(|ready, _| ready);
    // As in a rollback, during which both run for a while.
    let second = installation.stay(&old, &[]);
    second.wait(|ready, _| ready);
    first.wait(|ready, said| {
        !ready && said.contains("version 1.0.0 (a1b2c3d4e5f6, normal) of another installer")
    });
    fs::remove_file(installation.sandbox.plugins().join(PLUGINS[0])).unwrap();
    wait_until(&second, || installation.is_installed("1.0.0"));
    // Once the later one has ended, the earlier one keeps the folder again.
    assert!(second.terminate());
    first.wait(|ready, _| ready);
    assert!(installation.is_installed("2.0.0"));
}

#[test]
fn hundreds_of_changes_cost_few_repairs_and_others_names_none() {
    let installation = Installation::default();
    let staying = installation.stay(&installation.release("2.0.0"), &[]);
    staying.wait(|ready, _| ready);
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", staying.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let repairs = || staying.log().matches("repaired in").count();
    let before = ticks();
    let began = Instant::now();
    let plugins = installation.sandbox.plugins();
    for i in 0..500 {
        fs::write(plugins.join(format!("other-{}", i % 7)), "x").unwrap();
    }
    sleep(Duration::from_millis(300));
    assert_eq!(repairs(), 0);
    for i in 0..500 {
        let _ = fs::remove_file(plugins.join(PLUGINS[i % PLUGINS.len()]));
        sleep(Duration::from_millis(1));
    }
    wait_until(&staying, || installation.is_installed("2.0.0"));
    // It checks once a second, however slow the machine is.
    let seconds = began.elapsed().as_secs();
    let repairs = u64::try_from(repairs()).unwrap();
    assert!(repairs <= seconds + 2, "{}", staying.log());
    // 100 ticks are a second. A program that repairs all the time needs more.
    let ticks = ticks() - before;
    assert!(ticks < 50 + 10 * seconds, "{ticks} ticks");
}

#[test]
fn a_removal_takes_the_folder_from_an_installer_that_stays() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let staying = installation.stay(&release, &[]);
    staying.wait(|ready, _| ready);
    let uninstalling = installation.stay(&release, &["--uninstall", "--wait"]);
    uninstalling.wait(|ready, said| ready && said.contains("uninstalled by 1.0.0"));
    staying.wait(|ready, said| !ready && said.contains("another installer"));
    assert!(names(&installation.sandbox.plugins()).is_empty());
    staying.kill();
    assert!(uninstalling.terminate());
    assert_eq!(
        fs::read_dir(installation.sandbox.plugins())
            .unwrap()
            .count(),
        0
    );
}

/// Mounts a ConfigMap with this content, as the kubelet does.
fn mount(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    let version = format!("..{}", fs::read_dir(folder).unwrap().count());
    fs::create_dir(folder.join(&version)).unwrap();
    for (name, content) in files {
        fs::write(folder.join(&version).join(name), content).unwrap();
        let _ = symlink(format!("..data/{name}"), folder.join(name));
    }
    symlink(&version, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

/// A catalogue whose only pool is this subnet.
fn pool(subnet: &str) -> String {
    format!(r#"{{"pools": {{"all": {{"subnet": "{subnet}"}}}}, "rules": [{{"pools": ["all"]}}]}}"#)
}

#[test]
fn a_changed_configmap_is_taken_and_a_changed_catalogue_put_right() {
    let installation = Installation::default();
    let source = installation.path("config");
    mount(
        &source,
        &[
            ("10-all.json", &pool("10.1.0.0/24")),
            ("20-none.json", "{}"),
        ],
    );
    let from = format!("--pools-from={}", source.display());
    let staying = installation.stay(&installation.release("2.0.0"), &[&from]);
    staying.wait(|ready, _| ready);
    let used = installation.path("cni/ipam.d");
    let content = || fs::read_to_string(used.join("10-all.json")).unwrap_or_default();
    assert_eq!(content(), pool("10.1.0.0/24"));
    assert_eq!(names(&used), ["10-all.json", "20-none.json"]);
    // Several times, because the watched folder is replaced each time.
    for subnet in ["10.2.0.0/24", "10.3.0.0/24", "10.4.0.0/24"] {
        mount(&source, &[("10-all.json", &pool(subnet))]);
        wait_until(&staying, || content() == pool(subnet));
        assert_eq!(names(&used), ["10-all.json"]);
    }
    mount(&source, &[("10-all.json", &pool("10.5.0.1/24"))]);
    staying.wait(|ready, said| !ready && said.contains("10.5.0.1/24"));
    assert_eq!(content(), pool("10.4.0.0/24"));
    mount(&source, &[("10-all.json", &pool("10.6.0.0/24"))]);
    staying.wait(|ready, _| ready);
    assert_eq!(content(), pool("10.6.0.0/24"));
    // Somebody changes it on the node.
    fs::write(used.join("10-all.json"), "{}").unwrap();
    wait_until(&staying, || content() == pool("10.6.0.0/24"));
    fs::remove_file(used.join("10-all.json")).unwrap();
    wait_until(&staying, || content() == pool("10.6.0.0/24"));
    fs::remove_dir_all(&used).unwrap();
    wait_until(&staying, || content() == pool("10.6.0.0/24"));
    // A deleted ConfigMap is mounted empty.
    fs::remove_dir_all(&source).unwrap();
    fs::create_dir(&source).unwrap();
    staying.wait(|ready, said| !ready && said.contains("is empty"));
    assert_eq!(content(), pool("10.6.0.0/24"));
    assert!(staying.terminate());
}

#[test]
fn a_node_is_ready_only_if_the_runtime_would_use_its_conflist() {
    let installation = Installation::default();
    let net = installation.path("cni/net.d");
    let source = installation.path("conflists");
    fs::create_dir_all(&net).unwrap();
    fs::create_dir_all(installation.sandbox.plugins()).unwrap();
    let list = |mtu: u32| {
        format!(
            r#"{{"cniVersion": "1.0.0", "name": "tenants", "plugins": [{{"type": "bridge", "mtu": {mtu},
                "ipam": {{"type": "ipam-delegated", "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
                          "ranges": [[{{"subnet": "10.1.0.0/24"}}]]}}}}]}}"#
        )
    };
    mount(&source, &[("10-tenants.conflist", &list(1500))]);
    let other = r#"{"cniVersion": "1.0.0", "name": "other", "type": "ptp"}"#;
    fs::write(net.join("05-other.conf"), other).unwrap();
    for name in ["bridge", "ptp"] {
        write_executable(&installation.sandbox.plugins().join(name), "#!/bin/sh\n");
    }
    let from = format!("--conflists-from={}", source.display());
    let staying = installation.stay(&installation.release("2.0.0"), &[&from]);
    let first = net.join("05-other.conf").display().to_string();
    staying.wait(|ready, said| {
        !ready
            && said.contains(&format!(
                "network: the runtime uses the first file, which is {first}"
            ))
    });
    fs::rename(net.join("05-other.conf"), net.join("20-other.conf")).unwrap();
    staying.wait(|ready, _| ready);
    // Another conflist appears that no runtime can read.
    fs::write(net.join("05-other.conf"), "{").unwrap();
    staying.wait(|ready, said| !ready && said.contains(&first));
    fs::remove_file(net.join("05-other.conf")).unwrap();
    staying.wait(|ready, _| ready);
    // The main plugin is removed, and restored.
    let bridge = installation.sandbox.plugins().join("bridge");
    fs::remove_file(&bridge).unwrap();
    let missing = format!("{} is missing", bridge.display());
    staying.wait(|ready, said| !ready && said.contains(&missing));
    write_executable(&bridge, "#!/bin/sh\n");
    staying.wait(|ready, _| ready);
    // A conflist that is moved away and back is installed again: containerd has only noticed the
    // removal.
    let file = net.join("10-tenants.conflist");
    let before = fs::metadata(&file).unwrap().ino();
    fs::rename(&file, net.join("away")).unwrap();
    let _ = fs::rename(net.join("away"), &file);
    wait_until(&staying, || {
        fs::metadata(&file).is_ok_and(|now| now.ino() != before)
    });
    // An invalid one is refused, and the one in use stays.
    mount(
        &source,
        &[(
            "10-tenants.conflist",
            &list(1400).replace("10.1.0.0/24", "10.1.0.7/24"),
        )],
    );
    staying.wait(|ready, said| {
        !ready && said.contains("10.1.0.7/24") && said.contains("stays as it was")
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), list(1500));
    mount(&source, &[("10-tenants.conflist", &list(1400))]);
    staying.wait(|ready, _| ready);
    assert_eq!(fs::read_to_string(&file).unwrap(), list(1400));
}

#[test]
fn a_mount_over_the_folder_is_noticed_and_installed_into() {
    needs!("root");
    let node = Node::try_new().unwrap();
    let installation = Installation::default();
    fs::create_dir(installation.sandbox.plugins()).unwrap();
    let staying = installation.stay_on(&node, &installation.release("2.0.0"));
    staying.wait(|ready, _| ready);
    let folder = installation.sandbox.plugins().display().to_string();
    let is_installed = || node.succeeds(&format!("grep -q 2.0.0 {folder}/{}", PLUGINS[0]));
    wait_until(&staying, is_installed);
    node.sh(&format!("mount -t tmpfs none {folder}"));
    wait_until(&staying, is_installed);
    assert_eq!(node.sh(&format!("stat -f -c %T {folder}")).trim(), "tmpfs");
    node.sh(&format!("umount {folder}"));
    wait_until(&staying, is_installed);
    staying.wait(|ready, _| ready);
    // The disk is full, and then has room again. There is no event for that.
    node.sh(&format!(
        "mount -t tmpfs -o size=4k,nr_inodes=3 none {folder}"
    ));
    staying.wait(|ready, said| !ready && said.contains("No space left"));
    node.sh(&format!("mount -o remount,size=1m,nr_inodes=100 {folder}"));
    staying.wait(|ready, _| ready);
    assert!(is_installed());
}
