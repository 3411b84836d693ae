//! The image's entry point: installs, upgrades, keeps and removes plugins.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::{
    Installation, Node, PLUGINS, Staying, TOOL, needs, one_inode, plugin_of_version,
    write_executable,
};
use serde_json::json;

/// The longest that something is waited for that comes in the end.
const PATIENCE: Duration = Duration::from_secs(30);

#[track_caller]
fn wait_until(staying: &Staying, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{}", staying.log());
        sleep(Duration::from_millis(10));
    }
}

/// Names in a folder, without hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|it| !it.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn another_version_replaces_all_plugins_and_the_same_one_touches_nothing() {
    let it = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| it.release(version));
    let sbin = it.path("sbin");
    let word = format!("--sbin={}", sbin.display());
    let install = |release: &Path| it.call(release, &["--once", &word]).run().nothing();
    install(&old);
    assert!(it.is_installed("1.0.0"));
    let inode = one_inode(&it.sandbox.plugins());
    assert_eq!(names(&sbin), [TOOL]);
    let tool = fs::metadata(sbin.join(TOOL)).unwrap().ino();
    install(&old);
    assert_eq!(one_inode(&it.sandbox.plugins()), inode);
    install(&new);
    assert!(it.is_installed("2.0.0"));
    assert_ne!(one_inode(&it.sandbox.plugins()), inode);
    // ipamctl is the same in both.
    assert_eq!(fs::metadata(sbin.join(TOOL)).unwrap().ino(), tool);
    // What is told is done: an older version, too.
    install(&old);
    assert!(it.is_installed("1.0.0"));
    let mut expected = PLUGINS.map(str::to_owned);
    expected.sort();
    assert_eq!(names(&it.sandbox.plugins()), expected);
}

#[test]
fn what_is_removed_damaged_or_replaced_by_an_older_one_is_put_right() {
    let it = Installation::default();
    let staying = it.stay(&it.release("2.0.0"), &[]);
    let plugins = it.sandbox.plugins();
    let plugin = plugins.join(PLUGINS[2]);
    let right = || it.is_installed("2.0.0") && one_inode(&plugins) > 0;
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
        // Through the link that all share.
        &|| fs::write(&plugin, &older).unwrap(),
    ];
    for change in changes {
        change();
        wait_until(&staying, || {
            let mode = fs::metadata(&plugin).map(|it| it.mode() & 0o777);
            right() && mode.is_ok_and(|it| it == 0o755)
        });
    }
    // The folder itself.
    fs::remove_dir_all(&plugins).unwrap();
    wait_until(&staying, || plugins.exists() && it.is_installed("2.0.0"));
    fs::rename(&plugins, it.path("away")).unwrap();
    wait_until(&staying, || plugins.exists() && it.is_installed("2.0.0"));
    staying.wait(|ready, said| ready && said.contains("ready: 2.0.0 (a1b2c3d4e5f6, normal)"));
    assert!(staying.terminate());
    assert!(it.is_installed("2.0.0"));
}

#[test]
fn a_newer_plugin_and_a_foreign_file_stay_and_are_told() {
    let it = Installation::default();
    let staying = it.stay(&it.release("2.0.0"), &[]);
    let plugin = it.sandbox.plugins().join(PLUGINS[1]);
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
    assert!(it.is_installed("2.0.0"));
}

#[test]
fn a_foreign_file_forbids_an_installation_and_all_stays_as_it_was() {
    let it = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| it.release(version));
    it.once(&old).nothing();
    let plugins = it.sandbox.plugins();
    let victim = it.path("victim");
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
        let before = it.installed();
        let output = it.once(&new);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            output.stderr.contains(name.to_str().unwrap()),
            "{}",
            output.stderr
        );
        assert_eq!(it.installed(), before);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}

#[test]
fn of_two_that_stay_the_later_one_keeps_the_plugins_whatever_its_version() {
    let it = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| it.release(version));
    let first = it.stay(&new, &[]);
    first.wait(|ready, _| ready);
    // A rollback, in which both run for a while.
    let second = it.stay(&old, &[]);
    second.wait(|ready, _| ready);
    first.wait(|ready, said| {
        !ready && said.contains("version 1.0.0 (a1b2c3d4e5f6, normal) of another installer")
    });
    fs::remove_file(it.sandbox.plugins().join(PLUGINS[0])).unwrap();
    wait_until(&second, || it.is_installed("1.0.0"));
    // Once the later one has ended, the other one has the folder again.
    assert!(second.terminate());
    first.wait(|ready, _| ready);
    assert!(it.is_installed("2.0.0"));
}

#[test]
fn installations_at_once_leave_one_version_whole() {
    let it = Installation::default();
    let releases = ["1.0.0", "2.0.0", "3.0.0"].map(|version| it.release(version));
    for _ in 0..3 {
        let running: Vec<_> = releases
            .iter()
            .cycle()
            .take(9)
            .map(|release| it.call(release, &["--once"]).start())
            .collect();
        for one in running {
            one.output().nothing();
        }
        one_inode(&it.sandbox.plugins());
        assert!(
            ["1.0.0", "2.0.0", "3.0.0"]
                .iter()
                .any(|version| it.is_installed(version))
        );
        assert_eq!(
            fs::read_dir(it.sandbox.plugins()).unwrap().count(),
            PLUGINS.len()
        );
    }
}

#[test]
fn hundreds_of_changes_cost_few_repairs_and_others_names_none() {
    let it = Installation::default();
    let staying = it.stay(&it.release("2.0.0"), &[]);
    staying.wait(|ready, _| ready);
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", staying.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let repairs = || staying.log().matches("repaired in").count();
    let before = ticks();
    let plugins = it.sandbox.plugins();
    for i in 0..500 {
        fs::write(plugins.join(format!("other-{}", i % 7)), "x").unwrap();
    }
    sleep(Duration::from_millis(300));
    assert_eq!(repairs(), 0);
    for i in 0..500 {
        let _ = fs::remove_file(plugins.join(PLUGINS[i % PLUGINS.len()]));
        sleep(Duration::from_millis(1));
    }
    wait_until(&staying, || it.is_installed("2.0.0"));
    assert!(repairs() < 10, "{}", staying.log());
    // Of a hundred a second. No program that polls or repairs all the time gets by with it.
    assert!(ticks() - before < 50, "{} ticks", ticks() - before);
}

#[test]
fn a_disk_without_room_is_named_and_the_old_files_stay() {
    needs!("root");
    let node = Node::try_new().unwrap();
    let it = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| it.release(version));
    let plugins = it.sandbox.plugins();
    fs::create_dir(&plugins).unwrap();
    let folder = plugins.display().to_string();
    // A page for each of: two files, two folders, and entries.
    node.sh(&format!(
        "mount -t tmpfs -o size=16k,nr_inodes=100 none {folder}"
    ));
    it.once_on(&node, &old).nothing();
    let content = || node.sh(&format!("cat {folder}/ipam-*"));
    let (before, listed) = (content(), node.sh(&format!("ls -ia {folder}")));
    node.sh(&format!(
        "dd if=/dev/zero of={folder}/filler bs=1k count=64 2>/dev/null || true"
    ));
    let output = it.once_on(&node, &new);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        output.stderr.contains(&folder) && output.stderr.contains("No space left"),
        "{}",
        output.stderr
    );
    assert_eq!(content(), before);
    node.sh(&format!("rm {folder}/filler"));
    assert_eq!(node.sh(&format!("ls -ia {folder} | grep ipam-d")), {
        let lines = listed.lines().filter(|it| it.contains("ipam-d"));
        lines.map(|it| format!("{it}\n")).collect::<String>()
    });
    // No inode is left: for the hidden folder, for the new file, or for one of its links.
    let used = node.sh(&format!("df --output=iused {folder} | tail -n 1"));
    let used: usize = used.trim().parse().unwrap();
    for free in 0..PLUGINS.len() + 2 {
        node.sh(&format!(
            "mount -o remount,nr_inodes={} {folder}",
            used + free
        ));
        let output = it.once_on(&node, &new);
        assert_eq!(output.status.code(), Some(1), "{free}: {output:?}");
        assert_eq!(content(), before, "{free}");
    }
    node.sh(&format!("mount -o remount,nr_inodes=100 {folder}"));
    it.once_on(&node, &new).nothing();
    assert!(content().contains("2.0.0") && !content().contains("1.0.0"));
}

#[test]
fn a_read_only_folder_and_one_of_another_user_are_named() {
    needs!("root");
    let node = Node::try_new().unwrap();
    let it = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| it.release(version));
    it.once(&old).nothing();
    let folder = it.sandbox.plugins().display().to_string();
    node.sh(&format!("mount --bind -o ro {folder} {folder}"));
    let output = it.once_on(&node, &new);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = &output.stderr;
    assert!(
        said.contains(&folder) && said.contains("Read-only"),
        "{said}"
    );
    assert!(it.is_installed("1.0.0"));

    // Root without capabilities, as in the manifest.
    let without = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--no-new-privs",
    ];
    let call = || it.call(&new, &["--once"]).through(&without);
    std::os::unix::fs::chown(&folder, Some(1001), Some(1001)).unwrap();
    let output = call().run();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = &output.stderr;
    assert!(
        said.contains("user 1001") && said.contains("DAC_OVERRIDE"),
        "{said}"
    );
    assert!(it.is_installed("1.0.0"));
    std::os::unix::fs::chown(&folder, Some(0), Some(0)).unwrap();
    call().run().nothing();
    assert!(it.is_installed("2.0.0"));
}

#[test]
fn a_removal_is_refused_while_addresses_are_reserved() {
    let it = Installation::default();
    let sbin = it.path("sbin");
    let word = format!("--sbin={}", sbin.display());
    let release = it.release("1.0.0");
    it.call(&release, &["--once", &word]).run().nothing();
    let data = it.sandbox.data_dir();
    fs::create_dir_all(data.join("mynet")).unwrap();
    fs::create_dir_all(it.path("cni/net.d")).unwrap();
    // host-local's own network is no reason.
    let other = json!({"cniVersion": "1.0.0", "name": "theirs", "plugins": [
        {"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}]], "dataDir": data}}]});
    fs::write(it.path("cni/net.d/theirs.conflist"), other.to_string()).unwrap();
    fs::create_dir_all(data.join("theirs")).unwrap();
    fs::write(data.join("theirs/10.9.0.2"), "box\r\neth0").unwrap();
    fs::write(data.join("mynet/10.1.0.7"), "8f3e52c1\r\neth0").unwrap();
    let output = it.call(&release, &["--uninstall", &word]).run();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = &output.stderr;
    assert!(
        said.contains("10.1.0.7 of 8f3e52c1 on mynet") && !said.contains("10.9.0.2"),
        "{said}"
    );
    assert!(it.is_installed("1.0.0") && sbin.join(TOOL).exists());
    // A record alone is one.
    fs::remove_file(data.join("mynet/10.1.0.7")).unwrap();
    let record = it.sandbox.state_dir().join("mynet/8f3e52c1:eth0.json");
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(&record, "{}\n").unwrap();
    let output = it.call(&release, &["--uninstall", &word]).run();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("8f3e52c1"), "{}", output.stderr);
    let all = ["--uninstall", "--even-in-use", &word];
    it.call(&release, &all).run().nothing();
    assert_eq!(fs::read_dir(it.sandbox.plugins()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&sbin).unwrap().count(), 0);
    // Twice is no error.
    it.call(&release, &all).run().nothing();
}

#[test]
fn a_removal_takes_the_folder_from_an_installer_that_stays() {
    let it = Installation::default();
    let release = it.release("1.0.0");
    let staying = it.stay(&release, &[]);
    staying.wait(|ready, _| ready);
    let uninstalling = it.stay(&release, &["--uninstall", "--wait"]);
    uninstalling.wait(|ready, said| ready && said.contains("uninstalled by 1.0.0"));
    staying.wait(|ready, said| !ready && said.contains("another installer"));
    assert!(names(&it.sandbox.plugins()).is_empty());
    staying.kill();
    assert!(uninstalling.terminate());
    assert_eq!(fs::read_dir(it.sandbox.plugins()).unwrap().count(), 0);
}
