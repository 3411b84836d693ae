//! The image's entry point removes what it has installed, and nothing else.

use std::fs;

use harness::{
    IPAMCTL, Installation, Node, PLUGINS, installer_executable, names, needs, plugin_of_version,
    write_executable,
};
use serde_json::json;

#[test]
fn a_removal_is_refused_while_addresses_are_reserved() {
    let installation = Installation::default();
    let sbin = installation.path("sbin");
    let word = format!("--sbin={}", sbin.display());
    let release = installation.release("1.0.0");
    installation.run(&release, &["--once", &word]).nothing();
    let data = installation.sandbox.data_dir();
    fs::create_dir_all(data.join("mynet")).unwrap();
    fs::create_dir_all(installation.path("cni/net.d")).unwrap();
    fs::write(data.join("mynet/10.1.0.7"), "8f3e52c1\r\neth0").unwrap();
    let output = installation.run(&release, &["--uninstall", &word]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = &output.stderr;
    let row = ["10.1.0.7", "mynet", "8f3e52c1"];
    assert!(row.iter().all(|text| said.contains(text)), "{said}");
    assert!(installation.is_installed("1.0.0") && sbin.join(IPAMCTL).exists());
    // A record alone is a reason.
    fs::remove_file(data.join("mynet/10.1.0.7")).unwrap();
    let record = installation
        .sandbox
        .state_dir()
        .join("mynet/8f3e52c1:eth0.json");
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(&record, "{}\n").unwrap();
    let output = installation.run(&release, &["--uninstall", &word]);
    output.failed(1, ["8f3e52c1"]);
    let all = ["--uninstall", "--even-in-use", &word];
    installation.run(&release, &all).nothing();
    assert_eq!(names(installation.sandbox.plugins()), [""; 0]);
    assert_eq!(fs::read_dir(&sbin).unwrap().count(), 0);
    // A second removal is no error.
    installation.run(&release, &all).nothing();
}

#[test]
fn a_container_that_starts_during_a_removal_keeps_its_plugins_and_its_conflist() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let plugins = installation.sandbox.plugins();
    fs::create_dir_all(&plugins).unwrap();
    write_executable(&plugins.join("bridge"), "#!/bin/sh\n");
    let data = installation.path("data");
    let list = json!({"cniVersion": "1.0.0", "name": "mynet", "plugins": [{"type": "bridge", "ipam": {
        "type": "ipam-delegated", "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
        "ranges": [[{"subnet": "10.1.0.0/24"}]], "dataDir": data, "stateDir": installation.path("state")}}]});
    let from = installation.config("conflists", &[("10-mynet.conflist", &list.to_string())]);
    let install = || installation.run(&release, &["--once", &from]);
    install().nothing();
    let net = installation.path("cni/net.d");
    let installed = || {
        let content = fs::read_to_string(net.join("10-mynet.conflist"));
        (names(&plugins), names(&net), content.unwrap())
    };
    let before = installed();
    // A container gets its address just after the look at the reservations.
    let tool = release.join("sbin").join(IPAMCTL);
    let real = tool.with_extension("real");
    fs::rename(&tool, &real).unwrap();
    let (real, mynet) = (real.display(), data.join("mynet"));
    let mynet = mynet.display();
    write_executable(
        &tool,
        &format!(
            "#!/bin/sh\n{real} \"$@\"\nstatus=$?\nmkdir -p {mynet}\n\
             printf '8f3e52c1\\r\\neth0' > {mynet}/10.1.0.7\nexit $status\n"
        ),
    );
    let output = installation.run(&release, &["--uninstall"]);
    output.failed(1, ["10.1.0.7", "mynet"]);
    assert_eq!(installed(), before);
    // The next removal removes the conflist as well.
    fs::remove_dir_all(&data).unwrap();
    fs::remove_file(&tool).unwrap();
    fs::hard_link(format!("{real}"), &tool).unwrap();
    installation.run(&release, &["--uninstall"]).nothing();
    assert_eq!(names(&plugins), ["bridge"]);
    assert!(names(&net).is_empty());
}

#[test]
fn a_removal_leaves_what_it_has_not_installed_and_names_each() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let from = installation.config("pools", &[("10-pools.json", r#"{"pools": {}}"#)]);
    installation.run(&release, &["--once", &from]).nothing();
    let (net, plugins) = (
        installation.path("cni/net.d"),
        installation.sandbox.plugins(),
    );
    fs::create_dir_all(&net).unwrap();
    fs::write(net.join(".a.conflist.ipam-installer"), "{}").unwrap();
    fs::write(net.join("notes.ipam-installer"), "mine").unwrap();
    // A delegate of others that uses the crate `plugin` has the mark of a version, too.
    let theirs = plugins.join("ipam-ds-theirs");
    write_executable(&theirs, &plugin_of_version("7.0.0"));
    let foreign = plugins.join(PLUGINS[1]);
    write_executable(&foreign, "#!/bin/sh\n");
    let pool = installation.path("cni/ipam.d/90-mine.json");
    fs::write(&pool, "{}").unwrap();
    let output = installation.run(&release, &["--uninstall"]);
    output.ends(0);
    assert_eq!(names(&net), ["notes.ipam-installer"]);
    assert_eq!(names(&plugins), [PLUGINS[1], "ipam-ds-theirs"]);
    assert_eq!(names(pool.parent().unwrap()), ["90-mine.json"]);
    for (file, why) in [
        (&foreign, "ipam-installer has not installed it"),
        (&pool, "ipam-installer has not installed it"),
        (&theirs, "this image does not have it"),
    ] {
        let stays = format!("{} stays: {why}", file.display());
        assert!(output.stderr.contains(&stays), "{}", output.stderr);
    }
}

#[test]
fn conflists_that_a_killed_removal_has_put_aside_come_back() {
    let installation = Installation::default();
    let release = installation.release("1.0.0");
    let net = installation.path("cni/net.d");
    let aside = net.join(".aside-by-ipam-installer");
    fs::create_dir_all(&aside).unwrap();
    for name in ["10-a.conflist", "20-b.conflist"] {
        fs::write(aside.join(name), "aside").unwrap();
    }
    fs::write(net.join("20-b.conflist"), "of somebody else").unwrap();
    installation.once(&release).nothing();
    assert!(!aside.exists());
    let read = |name: &str| fs::read_to_string(net.join(name)).unwrap();
    assert_eq!(read("10-a.conflist"), "aside");
    assert_eq!(read("20-b.conflist"), "of somebody else");
}

/// Makes a container's root of the folder `$1`: read-only, with the release `$2`, the installer `$3`,
/// the machine's libraries, and mounts for the folders of the node.
const CONTAINER: &str = r#"mount -t tmpfs none "$1"
cd "$1"
cp -r "$2"/* .
cp "$3" ipam-installer
mkdir -p dev proc usr opt/cni etc/cni var/lib/cni run/cni run/ipam-installer config
mount --bind -o ro /usr usr
mount --bind /dev dev
mount --bind /proc proc
for folder in bin lib lib64; do ln -s "usr/$folder" $folder; done
for folder in opt/cni etc/cni var/lib/cni run/ipam-installer; do mount -t tmpfs none $folder; done
mkdir -p opt/cni/bin && printf '#!/bin/sh\n' > opt/cni/bin/bridge && chmod 755 opt/cni/bin/bridge
cp "$4" config/10-mynet.conflist
mount -o remount,ro ."#;

#[test]
fn a_folder_that_is_not_mounted_is_neither_judged_nor_taken_for_empty() {
    needs!("root");
    let (node, installation) = (Node::new(), Installation::default());
    let (root, list) = (installation.path("root"), installation.path("list"));
    fs::create_dir(&root).unwrap();
    let conflist = json!({"cniVersion": "1.0.0", "name": "mynet", "plugins": [{"type": "bridge", "ipam": {
        "type": "ipam-delegated", "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
        "ranges": [[{"subnet": "10.1.0.0/24"}]],
        "dataDir": "/run/cni/networks", "stateDir": "/run/cni/ipam-delegated"}}]});
    fs::write(&list, conflist.to_string()).unwrap();
    let release = installation.release("1.0.0");
    let mut make = node.command("sh");
    make.args(["-ec", CONTAINER, "sh"]).args([&root, &release]);
    make.args([&installer_executable(), &list]);
    let made = make.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let run = |words: &str| {
        let (root, words) = (root.display(), format!("--conflists-from=/config {words}"));
        let mut chroot = node.command("sh");
        chroot.args(["-c", &format!("chroot {root} /ipam-installer {words}")]);
        let output = chroot.output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (is_installed, said) = run("--once");
    assert!(is_installed, "{said}");
    let (is_removed, said) = run("--uninstall");
    assert!(!is_removed && said.contains("/run/cni/"), "{said}");
    assert!(said.contains("is not mounted here"), "{said}");
    node.sh(&format!("mount -t tmpfs none {}/run/cni", root.display()));
    let (is_removed, said) = run("--uninstall");
    assert!(is_removed, "{said}");
}
