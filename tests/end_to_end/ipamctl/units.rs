//! The commands of the systemd units, with scripts that answer like the runtimes, and with podman
//! and containerd if they are installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use harness::{Sandbox, is_root, repository, skip};

use super::{GONE, add, id, network};

/// The shell command of a unit, as systemd gives it to the shell (systemd.service(5),
/// "Command lines").
fn command(unit: &str) -> String {
    let path = repository().join("docs/systemd").join(unit);
    let text = fs::read_to_string(path).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '"));
    let line = line.unwrap().strip_suffix('\'').unwrap();
    line.replace("\\\\", "\\")
        .replace("$$", "$")
        .replace("%%", "%")
}

/// A node with two containers, and a folder of programs.
struct Machine {
    sandbox: Sandbox,
    folder: PathBuf,
}

impl Machine {
    fn with_containers(containers: [&str; 2]) -> Self {
        let sandbox = Sandbox::default();
        let config = network(&sandbox);
        for container in containers {
            add(&sandbox, &config, container, GONE);
        }
        let folder = sandbox.root().join("bin");
        fs::create_dir(&folder).unwrap();
        let programs = Self { sandbox, folder };
        let call = programs.sandbox.ipamctl(&[]);
        let words: Vec<String> = call
            .words()
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        programs.write("ipamctl", &format!("{} \"$@\"", words.join(" ")));
        programs
    }

    /// Writes a shell script into the folder of programs.
    fn write(&self, name: &str, body: &str) {
        let path = self.folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a unit's command; returns whether it succeeds, and the remaining addresses.
    fn run(&self, unit: &str) -> (bool, Vec<String>) {
        let tool = self.folder.join("ipamctl").display().to_string();
        let command = command(unit).replace("/usr/local/sbin/ipamctl", &tool);
        let path = format!("{}:/usr/sbin:/usr/bin:/bin", self.folder.display());
        let mut sh = Command::new("/bin/sh");
        sh.args(["-c", &command])
            .env("PATH", path)
            .env("IPAMCTL_OPTIONS", "--older-than 0s");
        let success = sh.status().unwrap().success();
        (success, self.sandbox.reserved("testnet"))
    }
}

/// Runs a unit's command on a node with the containers `a1` and `a2`. These scripts replace the
/// runtime.
fn left_by(unit: &str, programs: &[(&str, &str)]) -> (bool, Vec<String>) {
    let machine = Machine::with_containers([&id("a1"), &id("a2")]);
    for (name, body) in programs {
        machine.write(name, body);
    }
    machine.run(unit)
}

fn released() -> (bool, Vec<String>) {
    (true, vec!["10.77.0.2".to_owned()])
}

fn kept(success: bool) -> (bool, Vec<String>) {
    (
        success,
        vec!["10.77.0.2".to_owned(), "10.77.0.3".to_owned()],
    )
}

#[test]
fn each_unit_releases_what_its_runtime_does_not_know() {
    let list = format!("echo {}", id("a1"));
    for (unit, program) in [
        ("ipamctl-gc-podman.service", "podman"),
        ("ipamctl-gc-containerd-crictl.service", "crictl"),
        ("ipamctl-gc-crio.service", "crictl"),
    ] {
        assert_eq!(left_by(unit, &[(program, &list)]), released(), "{unit}");
    }
    let ctr = format!(
        "case \"$1\" in namespaces) echo default;; *) echo {};; esac",
        id("a1")
    );
    assert_eq!(
        left_by("ipamctl-gc-containerd-ctr.service", &[("ctr", &ctr)]),
        released()
    );
}

#[test]
fn a_runtime_that_fails_or_knows_no_container_releases_nothing() {
    for (unit, program) in [
        ("ipamctl-gc-podman.service", "podman"),
        ("ipamctl-gc-containerd-crictl.service", "crictl"),
        ("ipamctl-gc-crio.service", "crictl"),
        ("ipamctl-gc-containerd-ctr.service", "ctr"),
    ] {
        assert_eq!(left_by(unit, &[(program, "exit 1")]), kept(false), "{unit}");
        assert_eq!(left_by(unit, &[(program, "exit 0")]), kept(true), "{unit}");
    }
    // One of two namespaces can't be listed.
    let ctr = format!(
        "case \"$1 $2\" in \"namespaces ls\") echo one two;; *one) echo {};; *) exit 1;; esac",
        id("a1")
    );
    assert_eq!(
        left_by("ipamctl-gc-containerd-ctr.service", &[("ctr", &ctr)]),
        kept(false)
    );
}

#[test]
fn containers_of_ctr_are_known_to_cni_with_their_namespace() {
    let ctr = format!(
        "case \"$1\" in namespaces) echo ns;; *) echo {} {};; esac",
        id("a1"),
        id("a2")
    );
    assert_eq!(
        left_by("ipamctl-gc-containerd-ctr.service", &[("ctr", &ctr)]),
        kept(true)
    );
}

/// True if a test of a real runtime can run here; otherwise, the reason is printed.
fn can_run(runtime: &str) -> bool {
    let is_installed = ["/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|folder| PathBuf::from(folder).join(runtime).exists());
    if !is_root() || !is_installed {
        skip(
            &format!("the unit of ipamctl with {runtime}"),
            &format!("it needs root and {runtime}"),
        );
        return false;
    }
    true
}

/// Runs a command; returns its output, without the last line feed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_unit_of_podman_keeps_what_podman_lists() {
    if !can_run("podman") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| root.path().join(name).display().to_string();
    let options = [
        "--root",
        &folder("root"),
        "--runroot",
        &folder("run"),
        "--tmpdir",
        &folder("tmp"),
        "--storage-driver=vfs",
        "--cgroup-manager=cgroupfs",
        "--events-backend=file",
    ];
    let podman = |words: &[&str]| {
        let mut podman = Command::new("podman");
        printed(podman.args(options).args(words))
    };
    // An empty image is enough: the container is not started.
    fs::create_dir(root.path().join("image")).unwrap();
    let image = folder("image.tar");
    printed(Command::new("tar").args(["-C", &folder("image"), "-cf", &image, "."]));
    podman(&["import", "--quiet", &image, "empty:1"]);
    let container = podman(&["create", "--network=none", "empty:1", "/nothing"]);
    let machine = Machine::with_containers([&container, &id("a2")]);
    let body = format!("exec /usr/bin/podman {} \"$@\"", options.join(" "));
    machine.write("podman", &body);
    assert_eq!(machine.run("ipamctl-gc-podman.service"), released());
}

/// A containerd that ends with the test.
struct Containerd(Child);

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_unit_of_containerd_keeps_what_ctr_lists() {
    if !can_run("containerd") || !can_run("ctr") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| root.path().join(name).display().to_string();
    let (socket, config) = (folder("sock"), folder("config.toml"));
    let content = format!(
        "version = 2\nroot = {:?}\nstate = {:?}\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
         [grpc]\naddress = {socket:?}\n[ttrpc]\naddress = {:?}\n",
        folder("root"),
        folder("state"),
        folder("ttrpc"),
    );
    fs::write(&config, content).unwrap();
    let log = fs::File::create(folder("log")).unwrap();
    let mut containerd = Command::new("containerd");
    let started = containerd.args(["--config", &config]).stderr(log).spawn();
    let _containerd = Containerd(started.unwrap());
    let ctr = |words: &[&str]| {
        let mut ctr = Command::new("ctr");
        let address = ["--address", &socket, "--namespace", "shop"];
        ctr.args(address).args(words).output().unwrap()
    };
    let mut attempts = 0;
    while !ctr(&["version"]).status.success() {
        assert!(attempts < 1_000, "containerd doesn't answer");
        attempts += 1;
        sleep(Duration::from_millis(10));
    }
    fs::create_dir(root.path().join("image")).unwrap();
    let image = folder("image");
    let created = ctr(&[
        "containers",
        "create",
        "--rootfs",
        &image,
        "web",
        "/nothing",
    ]);
    assert!(created.status.success(), "{created:?}");
    // The name that ctr run --cni passes to CNI.
    let machine = Machine::with_containers(["shop-web", "shop-gone"]);
    machine.write(
        "ctr",
        &format!("exec /usr/bin/ctr --address {socket} \"$@\""),
    );
    assert_eq!(machine.run("ipamctl-gc-containerd-ctr.service"), released());
}
