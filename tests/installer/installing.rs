//! The image's entry point installs, upgrades and removes plugins.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use harness::{IPAMCTL, Installation, Node, PLUGINS, names, needs, one_inode, write_executable};
use serde_json::json;

#[test]
fn another_version_replaces_all_plugins_and_the_same_one_touches_nothing() {
    let installation = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    let sbin = installation.path("sbin");
    let word = format!("--sbin={}", sbin.display());
    let install = |release: &Path| {
        installation.run(release, &["--once", &word]).nothing();
    };
    install(&old);
    assert!(installation.is_installed("1.0.0"));
    let inode = one_inode(&installation.sandbox.plugins());
    assert_eq!(names(&sbin), [IPAMCTL]);
    let tool = fs::metadata(sbin.join(IPAMCTL)).unwrap().ino();
    install(&old);
    assert_eq!(one_inode(&installation.sandbox.plugins()), inode);
    install(&new);
    assert!(installation.is_installed("2.0.0"));
    assert_ne!(one_inode(&installation.sandbox.plugins()), inode);
    // ipamctl is the same in both.
    assert_eq!(fs::metadata(sbin.join(IPAMCTL)).unwrap().ino(), tool);
    // The given release is installed, even an older one.
    install(&old);
    assert!(installation.is_installed("1.0.0"));
    let mut expected = PLUGINS.map(str::to_owned);
    expected.sort();
    assert_eq!(names(installation.sandbox.plugins()), expected);
}

#[test]
fn a_folder_that_is_a_link_is_followed_and_a_dangling_one_refused() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let plugins = installation.sandbox.plugins();
    symlink(installation.path("elsewhere"), &plugins).unwrap();
    let output = installation.once(&release);
    output.ends(1);
    let named = plugins.display().to_string();
    assert!(output.stderr.contains(&named), "{}", output.stderr);
    fs::create_dir(installation.path("elsewhere")).unwrap();
    installation.once(&release).nothing();
    assert!(installation.is_installed("1.0.0"));
}

#[test]
fn only_root_may_write_to_a_new_folder_whatever_the_umask() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let sbin = installation.path("new/sbin");
    let word = format!("--sbin={}", sbin.display());
    let call = installation.call(&release, &["--once", &word]);
    let call = call.through(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
    call.run().nothing();
    for folder in [
        &installation.sandbox.plugins(),
        &sbin,
        &installation.path("new"),
    ] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o7777, 0o755);
    }
}

#[test]
fn a_foreign_file_forbids_an_installation_and_all_stays_as_it_was() {
    let installation = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    installation.once(&old).nothing();
    let plugins = installation.sandbox.plugins();
    let victim = installation.path("victim");
    fs::write(&victim, "precious").unwrap();
    let name = plugins.join("ipam-gc");
    let plants: [&dyn Fn(); 3] = [
        &|| write_executable(&name, "#!/bin/sh\nexit 0\n"),
        &|| symlink(&victim, &name).unwrap(),
        &|| fs::create_dir(&name).unwrap(),
    ];
    for plant in plants {
        fs::remove_file(&name).unwrap();
        plant();
        let before = installation.installed();
        let output = installation.once(&new);
        output.failed(1, [name.to_str().unwrap()]);
        assert_eq!(installation.installed(), before);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}

#[test]
fn a_foreign_conflist_or_catalogue_forbids_the_installation_of_the_plugins_too() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    for (kind, file) in [
        ("pools", "cni/ipam.d/10-mine.json"),
        ("pools", "cni/ipam.d/20-theirs.json"),
        ("conflists", "cni/net.d/10-mine.json"),
    ] {
        let file = installation.path(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "{}").unwrap();
        let from = installation.config(kind, &[("10-mine.json", "{}")]);
        let output = installation.run(&release, &["--once", &from]);
        output.failed(1, [file.to_str().unwrap()]);
        assert!(names(installation.sandbox.plugins()).is_empty());
        assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn an_executable_of_the_image_that_does_not_end_is_ended() {
    let installation = Installation::default();
    let from = installation.config("pools", &[("10-a.json", "{}")]);
    let refused = |release: &Path, path: &Path, script: &str| {
        fs::remove_file(path).unwrap();
        write_executable(path, script);
        let output = installation.run(release, &["--once", &from]);
        output.failed(1, [path.to_str().unwrap(), "did not end within"]);
    };
    let [hangs, leaves] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    let plugin = hangs.join("plugins/ipam-delegated");
    let tool = leaves.join("sbin/ipamctl");
    std::thread::scope(|scope| {
        scope.spawn(|| refused(&hangs, &plugin, "#!/bin/sh\nsleep 300\n"));
        // A process that it leaves behind keeps its stdout.
        scope.spawn(|| refused(&leaves, &tool, "#!/bin/sh\nsleep 300 &\n"));
    });
}

#[test]
fn a_refused_configuration_leaves_the_conflists_folder_untouched() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let net = installation.path("cni/net.d");
    fs::create_dir_all(&net).unwrap();
    let list = r#"{"cniVersion": "1.0.0", "name": "a b"}"#;
    let from = installation.config("conflists", &[("10-a.conflist", list)]);
    let before = fs::metadata(&net).unwrap().modified().unwrap();
    let output = installation.run(&release, &["--once", &from]);
    output.failed(1, ["a b"]);
    assert!(installation.is_installed("1.0.0"));
    assert_eq!(fs::metadata(&net).unwrap().modified().unwrap(), before);
}

#[test]
fn a_new_catalogue_is_checked_with_the_conflist_that_reads_it() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let plugins = installation.sandbox.plugins();
    fs::create_dir(&plugins).unwrap();
    write_executable(&plugins.join("bridge"), "#!/bin/sh\n");
    let ipam = json!({
        "type": "ipam-delegated", "delegates": ["ipam-ds-rules", "ipam-da-host-local"],
        "pools": {"all": {"subnet": "10.1.0.0/24"}},
        // The catalogue's folder, spelled differently.
        "poolsDir": format!("{}/", installation.path("cni/ipam.d").display()),
        "dataDir": installation.path("data"), "stateDir": installation.path("state"),
    });
    let bridge = json!({"type": "bridge", "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "mynet", "plugins": [bridge]});
    let conflists = installation.config("conflists", &[("10-mynet.conflist", &list.to_string())]);
    let install = |pool: &str| {
        let rules = json!({"rules": [{"pools": [pool]}]}).to_string();
        let pools = installation.config("pools", &[("20-rules.json", &rules)]);
        installation.run(&release, &["--once", &pools, &conflists])
    };
    // Only the conflist has this pool.
    install("all").nothing();
    let refused = install("missing");
    assert_eq!(refused.status.code(), Some(1));
    let said = &refused.stderr;
    let file = installation.path("cni/ipam.d/20-rules.json");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    assert!(said.contains("missing"), "{said}");
}

#[test]
fn installations_at_once_leave_one_version_whole() {
    let installation = Installation::default();
    let releases = ["1.0.0", "2.0.0", "3.0.0"].map(|version| installation.release(version));
    for _ in 0..3 {
        let running: Vec<_> = releases
            .iter()
            .cycle()
            .take(9)
            .map(|release| installation.call(release, &["--once"]).start())
            .collect();
        for one in running {
            one.output().nothing();
        }
        one_inode(&installation.sandbox.plugins());
        assert!(
            ["1.0.0", "2.0.0", "3.0.0"]
                .iter()
                .any(|version| installation.is_installed(version))
        );
        assert_eq!(names(installation.sandbox.plugins()).len(), PLUGINS.len());
    }
}

#[test]
fn a_disk_without_room_is_named_and_the_old_files_stay() {
    needs!("root");
    let node = Node::try_new().unwrap();
    let installation = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    let plugins = installation.sandbox.plugins();
    fs::create_dir(&plugins).unwrap();
    let folder = plugins.display().to_string();
    // One page for each of: two files, two folders, and directory entries.
    node.sh(&format!(
        "mount -t tmpfs -o size=16k,nr_inodes=100 none {folder}"
    ));
    installation.once_on(&node, &old).nothing();
    let content = || node.sh(&format!("cat {folder}/ipam-*"));
    let (before, listed) = (content(), node.sh(&format!("ls -ia {folder}")));
    node.sh(&format!(
        "dd if=/dev/zero of={folder}/filler bs=1k count=64 2>/dev/null || true"
    ));
    let output = installation.once_on(&node, &new);
    output.failed(1, [&folder, "No space left"]);
    assert_eq!(content(), before);
    node.sh(&format!("rm {folder}/filler"));
    assert_eq!(node.sh(&format!("ls -ia {folder} | grep ipam-d")), {
        let lines = listed.lines().filter(|line| line.contains("ipam-d"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    });
    // No free inode for the new file, or for one of its links.
    let used = node.sh(&format!("df --output=iused {folder} | tail -n 1"));
    let used: usize = used.trim().parse().unwrap();
    for free in 0..PLUGINS.len() {
        node.sh(&format!(
            "mount -o remount,nr_inodes={} {folder}",
            used + free
        ));
        let output = installation.once_on(&node, &new);
        assert_eq!(output.status.code(), Some(1), "{free}: {output:?}");
        assert_eq!(content(), before, "{free}");
    }
    node.sh(&format!("mount -o remount,nr_inodes=100 {folder}"));
    installation.once_on(&node, &new).nothing();
    assert!(content().contains("2.0.0") && !content().contains("1.0.0"));
}

#[test]
fn a_read_only_folder_and_one_of_another_user_are_named() {
    needs!("root");
    let node = Node::try_new().unwrap();
    let installation = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| installation.release(version));
    installation.once(&old).nothing();
    let folder = installation.sandbox.plugins().display().to_string();
    node.sh(&format!("mount --bind -o ro {folder} {folder}"));
    let output = installation.once_on(&node, &new);
    output.failed(1, [&folder, "Read-only"]);
    assert!(installation.is_installed("1.0.0"));

    // Root without capabilities, as in the manifest.
    let without = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--no-new-privs",
    ];
    let call = || installation.call(&new, &["--once"]).through(&without);
    std::os::unix::fs::chown(&folder, Some(1001), Some(1001)).unwrap();
    let output = call().run();
    output.failed(1, [&folder, "Permission denied"]);
    assert!(installation.is_installed("1.0.0"));
    std::os::unix::fs::chown(&folder, Some(0), Some(0)).unwrap();
    call().run().nothing();
    assert!(installation.is_installed("2.0.0"));
}

#[test]
fn a_file_that_cant_be_read_is_neither_replaced_nor_removed() {
    needs!("root");
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    installation.once(&release).nothing();
    // A foreign file of the same size.
    let file = installation.sandbox.plugins().join("ipam-delegated");
    let size = fs::metadata(&file).unwrap().len();
    fs::remove_file(&file).unwrap();
    let content = "x".repeat(usize::try_from(size).unwrap());
    fs::write(&file, &content).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    for words in [["--once"], ["--uninstall"]] {
        let without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
        let output = installation.call(&release, &words).through(&without).run();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let said = &output.stderr;
        assert!(said.contains("ipam-delegated: "), "{words:?}: {said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content, "{words:?}");
    }
}
