//! The image's entry point after an installation: it restores removed or replaced files, and
//! installs changes of a ConfigMap.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use harness::{
    Call, Installation, Node, PLUGINS, Sandbox, names, needs, plugin_of_version, unmarked,
    write_executable,
};
use serde_json::json;

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
fn what_is_removed_damaged_or_replaced_by_another_version_is_put_right() {
    let installation = Installation::default();
    let staying = installation.stay(&installation.release("2.0.0"), &[]);
    let plugins = installation.sandbox.plugins();
    let plugin = plugins.join(PLUGINS[2]);
    let right = || installation.is_installed("2.0.0") && is_one_file(&plugins);
    staying.wait_until(right);
    staying.wait(|ready, _| ready);
    let older = plugin_of_version("1.9.9");
    let newer = plugin_of_version("2.1.0");
    let changes: [&dyn Fn(); 5] = [
        &|| fs::remove_file(&plugin).unwrap(),
        &|| write_executable(&plugin, &older),
        &|| write_executable(&plugin, &newer),
        &|| fs::set_permissions(&plugin, fs::Permissions::from_mode(0o600)).unwrap(),
        // Writes through the link that all plugins share.
        &|| fs::write(&plugin, &older).unwrap(),
    ];
    for change in changes {
        change();
        staying.wait_until(|| {
            let mode = fs::metadata(&plugin).map(|file| file.mode() & 0o777);
            right() && mode.is_ok_and(|mode| mode == 0o755)
        });
    }
    // Removes the folder itself. The entry point may restore the first plugin before the last one
    // is removed.
    let _ = fs::remove_dir_all(&plugins);
    staying.wait_until(right);
    fs::rename(&plugins, installation.path("away")).unwrap();
    staying.wait_until(right);
    staying.wait(|ready, said| ready && said.contains("ready: 2.0.0 (a1b2c3d4e5f6, normal)"));
    assert!(staying.terminate());
    assert!(installation.is_installed("2.0.0"));
}

#[test]
fn a_foreign_file_stays_and_is_told() {
    let installation = Installation::default();
    let staying = installation.ready("2.0.0");
    let plugin = installation.sandbox.plugins().join(PLUGINS[1]);
    write_executable(&plugin, "#!/bin/sh\nexit 0\n");
    let named = plugin.display().to_string();
    staying.wait(|ready, said| !ready && said.contains(&named));
    assert_eq!(fs::read_to_string(&plugin).unwrap(), "#!/bin/sh\nexit 0\n");
    fs::remove_file(&plugin).unwrap();
    staying.wait(|ready, _| ready);
    assert!(installation.is_installed("2.0.0"));
}

#[test]
fn a_plugin_of_another_user_is_replaced_and_its_links_are_not_written_through() {
    needs!("root");
    let installation = Installation::default();
    let staying = installation.ready("2.0.0");
    let plugin = installation.sandbox.plugins().join(PLUGINS[1]);
    let link = installation.path("link");
    fs::hard_link(&plugin, &link).unwrap();
    std::os::unix::fs::chown(&plugin, Some(1000), None).unwrap();
    staying.wait_until(|| fs::metadata(&plugin).is_ok_and(|file| file.uid() == 0));
    assert_eq!(fs::metadata(&link).unwrap().uid(), 1000);
    assert_eq!(
        fs::read_to_string(&link).unwrap(),
        plugin_of_version("2.0.0")
    );
}

#[test]
fn of_two_the_second_waits_and_changes_nothing_until_the_first_has_ended() {
    let installation = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    let first = installation.stay(&new, &[]);
    first.wait(|ready, _| ready);
    // As in a rollback, during which both run for a while.
    let second = installation.stay(&old, &[]);
    second.wait(|ready, said| !ready && said.contains("another installer works on this node"));
    fs::remove_file(installation.sandbox.plugins().join(PLUGINS[0])).unwrap();
    first.wait_until(|| installation.is_installed("2.0.0"));
    assert!(first.terminate());
    second.wait(|ready, _| ready);
    assert!(installation.is_installed("1.0.0"));
}

#[test]
fn hundreds_of_changes_cost_few_repairs_and_others_names_none() {
    let installation = Installation::default();
    let staying = installation.ready("2.0.0");
    let repairs = || staying.log().matches("installed in").count();
    let plugins = installation.sandbox.plugins();
    for i in 0..500 {
        fs::write(plugins.join(format!("other-{}", i % 7)), "x").unwrap();
    }
    fs::remove_file(plugins.join(PLUGINS[0])).unwrap();
    staying.wait_until(|| repairs() > 1);
    assert_eq!(repairs(), 2, "{}", staying.log());
    for i in 0..500 {
        let _ = fs::remove_file(plugins.join(PLUGINS[i % PLUGINS.len()]));
    }
    staying.wait_until(|| installation.is_installed("2.0.0"));
    assert!(repairs() < 50, "{}", staying.log());
}

#[test]
fn a_removal_that_waits_removes_all_once_nothing_is_reserved() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let staying = installation.stay(&release, &[]);
    staying.wait(|ready, _| ready);
    let uninstalling = installation.stay(&release, &["--uninstall", "--wait"]);
    uninstalling.wait(|ready, said| !ready && said.contains("another installer"));
    let reserved = installation.sandbox.data_dir().join("mynet/10.1.0.7");
    fs::create_dir_all(reserved.parent().unwrap()).unwrap();
    fs::write(&reserved, "8f3e52c1\r\neth0").unwrap();
    assert!(staying.terminate());
    uninstalling
        .wait(|ready, said| !ready && said.contains("10.1.0.7") && said.contains("8f3e52c1"));
    assert!(installation.is_installed("1.0.0"));
    fs::remove_file(&reserved).unwrap();
    uninstalling.wait(|ready, said| ready && said.contains("uninstalled by 1.0.0"));
    assert!(names(installation.sandbox.plugins()).is_empty());
    assert!(uninstalling.terminate());
}

#[test]
fn a_del_that_has_failed_is_repeated() {
    let installation = Installation::default();
    let staying = installation.ready("1.0.0");
    let away = installation.path("away");
    fs::write(&away, "").unwrap();
    let delegate = format!(
        "#!/bin/sh\n[ $CNI_COMMAND = DEL ] && [ -e {} ] && exit 1\n\
         [ $CNI_COMMAND = ADD ] && echo '{{\"cniVersion\": \"1.0.0\", \"ips\": []}}'\nexit 0\n",
        away.display()
    );
    let plugins = installation.sandbox.plugins();
    write_executable(&plugins.join("flaky"), &delegate);
    let config = json!({"cniVersion": "1.0.0", "name": "mynet", "type": "bridge", "ipam": {
        "type": "ipam-delegated", "delegates": ["flaky"],
        "stateDir": installation.sandbox.state_dir()}});
    // The plugins of the release are scripts.
    let real = Sandbox::default();
    let call = |command: &str| {
        let call = Call::new(real.plugins().join("ipam-delegated"))
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", "8f3e52c1")
            .env("CNI_NETNS", "/run/netns/x")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", &plugins)
            .stdin(config.to_string());
        call.run().status.success()
    };
    assert!(call("ADD") && !call("DEL"));
    let record = installation.sandbox.state_dir();
    let record = record.join("mynet/8f3e52c1:eth0.json");
    assert!(record.exists());
    fs::remove_file(&away).unwrap();
    staying.wait_until(|| !record.exists());
}

/// Mounts a ConfigMap with this content, as the kubelet does.
pub(crate) fn mount<T: AsRef<str>>(folder: &Path, files: &[(&str, T)]) {
    fs::create_dir_all(folder).unwrap();
    let version = format!("..{}", fs::read_dir(folder).unwrap().count());
    fs::create_dir(folder.join(&version)).unwrap();
    for (name, content) in files {
        fs::write(folder.join(&version).join(name), content.as_ref()).unwrap();
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
            ("10-all.json", pool("10.1.0.0/24")),
            ("20-none.json", "{}".to_owned()),
        ],
    );
    let from = format!("--pools-from={}", source.display());
    let staying = installation.stay(&installation.release("2.0.0"), &[&from]);
    staying.wait(|ready, _| ready);
    let used = installation.path("cni/ipam.d");
    let content = || unmarked(&fs::read_to_string(used.join("10-all.json")).unwrap_or_default());
    assert_eq!(content(), pool("10.1.0.0/24"));
    assert_eq!(names(&used), ["10-all.json", "20-none.json"]);
    // Several times, because the watched folder is replaced each time.
    for subnet in ["10.2.0.0/24", "10.3.0.0/24", "10.4.0.0/24"] {
        mount(&source, &[("10-all.json", &pool(subnet))]);
        staying.wait_until(|| content() == pool(subnet));
        assert_eq!(names(&used), ["10-all.json"]);
    }
    mount(&source, &[("10-all.json", &pool("10.5.0.1/24"))]);
    staying.wait(|ready, said| !ready && said.contains("10.5.0.1/24"));
    assert_eq!(content(), pool("10.4.0.0/24"));
    mount(&source, &[("10-all.json", &pool("10.6.0.0/24"))]);
    staying.wait(|ready, _| ready);
    assert_eq!(content(), pool("10.6.0.0/24"));
    // Somebody changes it on the node.
    fs::write(
        used.join("10-all.json"),
        r#"{"installedBy": "ipam-installer"}"#,
    )
    .unwrap();
    staying.wait_until(|| content() == pool("10.6.0.0/24"));
    fs::remove_file(used.join("10-all.json")).unwrap();
    staying.wait_until(|| content() == pool("10.6.0.0/24"));
    fs::remove_dir_all(&used).unwrap();
    staying.wait_until(|| content() == pool("10.6.0.0/24"));
    // A deleted ConfigMap is mounted empty, and changes nothing.
    mount::<&str>(&source, &[]);
    fs::remove_file(installation.sandbox.plugins().join(PLUGINS[0])).unwrap();
    staying.wait_until(|| installation.is_installed("2.0.0"));
    staying.wait(|ready, _| ready);
    assert_eq!(
        staying.probe(),
        (true, "ready: 2.0.0 (a1b2c3d4e5f6, normal)".to_owned())
    );
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
    staying.wait(|ready, said| !ready && said.contains("network: ") && said.contains(&first));
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
    staying.wait(|ready, said| !ready && said.contains("bridge"));
    write_executable(&bridge, "#!/bin/sh\n");
    staying.wait(|ready, _| ready);
    // A conflist that is moved away and back is installed again: containerd has only noticed the
    // removal.
    let file = net.join("10-tenants.conflist");
    let before = fs::metadata(&file).unwrap().ino();
    fs::rename(&file, net.join("away")).unwrap();
    let _ = fs::rename(net.join("away"), &file);
    staying.wait_until(|| fs::metadata(&file).is_ok_and(|now| now.ino() != before));
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
    assert_eq!(unmarked(&fs::read_to_string(&file).unwrap()), list(1500));
    mount(&source, &[("10-tenants.conflist", &list(1400))]);
    staying.wait(|ready, _| ready);
    assert_eq!(unmarked(&fs::read_to_string(&file).unwrap()), list(1400));
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
    staying.wait_until(is_installed);
    node.sh(&format!("mount -t tmpfs none {folder}"));
    staying.wait_until(is_installed);
    assert_eq!(node.sh(&format!("stat -f -c %T {folder}")).trim(), "tmpfs");
    // The installer holds its lock on the mounted folder.
    node.sh(&format!("umount -l {folder}"));
    staying.wait_until(is_installed);
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
