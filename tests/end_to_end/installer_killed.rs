//! SIGKILL before each system call of the image's entry point, while it replaces one version
//! and one catalogue by another. At each point, every name leads to a whole file of one of the
//! two versions, the catalogue is one of the two, and the next installation completes and
//! leaves nothing behind.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use harness::{Call, Installation, PLUGINS, needs, one_inode, plugin_of_version};

const STRACE: &str = "/usr/bin/strace";

/// The options of strace that kill it at a point, for each system call of a trace from the
/// first one that changes something on.
fn points(trace: &str) -> Vec<String> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut has_begun = false;
    let mut points = Vec::new();
    for line in trace.lines() {
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        let is_call = name
            .bytes()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_');
        if !is_call {
            continue;
        }
        let time = times.entry(name).or_default();
        *time += 1;
        has_begun |= name == "mkdirat";
        if has_begun {
            points.push(format!("inject={name}:signal=SIGKILL:when={time}"));
        }
    }
    points
}

#[test]
fn at_every_point_each_name_is_a_whole_file_and_the_next_installation_completes() {
    needs!(STRACE);
    let it = Installation::default();
    let [old, new] = ["1.0.0", "2.0.0"].map(|version| it.release(version));
    let true_works =
        Call::new(PathBuf::from("/bin/true")).through(&[STRACE, "-qq", "-o", "/dev/null"]);
    if !true_works.run().status.success() {
        harness::skip("installer_killed", "strace may not trace here");
        return;
    }
    // Each of two files, which belong together.
    let catalogue = |octet: u8| {
        let pools = format!(r#"{{"pools": {{"p{octet}": {{"subnet": "10.{octet}.0.0/24"}}}}}}"#);
        let rules = format!(r#"{{"rules": [{{"pools": ["p{octet}"]}}]}}"#);
        let folder = it.path(&format!("config-{octet}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("10-pools.json"), &pools).unwrap();
        fs::write(folder.join("20-rules.json"), &rules).unwrap();
        (format!("--pools-from={}", folder.display()), [pools, rules])
    };
    let [(from_old, first), (from_new, second)] = [1, 2].map(catalogue);
    let used = || {
        let read = |name: &str| fs::read_to_string(it.path("cni/ipam.d").join(name)).unwrap();
        ["10-pools.json", "20-rules.json"].map(read)
    };
    let install_old = || it.call(&old, &["--once", &from_old]).run().nothing();
    let install_new = || it.call(&new, &["--once", &from_new]).run().nothing();
    let traced = |trace: &str, expression: &str| {
        let call = it.call(&new, &["--once", &from_new]);
        call.through(&[STRACE, "-qq", "-o", trace, "-e", expression])
            .run()
    };
    install_old();
    let trace = it.path("trace");
    traced(trace.to_str().unwrap(), "trace=all").nothing();
    let points = points(&fs::read_to_string(&trace).unwrap());
    assert!(points.len() > 40, "{points:?}");
    let versions = ["1.0.0", "2.0.0"].map(plugin_of_version);
    let mut killed = 0;
    for point in &points {
        install_old();
        let output = traced("/dev/null", point);
        killed += usize::from(output.status.signal() == Some(9));
        for (plugin, content) in PLUGINS.iter().zip(it.installed()) {
            let content = content.unwrap_or_else(|| panic!("{plugin} is missing: {point}"));
            assert!(
                versions.contains(&content),
                "{plugin} at {point}: {content}"
            );
        }
        assert!(
            [&first, &second].contains(&&used()),
            "{point}: {:?}",
            used()
        );
        install_new();
        assert!(it.is_installed("2.0.0") && used() == second, "{point}");
        one_inode(&it.sandbox.plugins());
        let count = fs::read_dir(it.sandbox.plugins()).unwrap().count();
        assert_eq!(count, PLUGINS.len(), "{point}");
        let count = fs::read_dir(it.path("cni")).unwrap().count();
        assert_eq!(count, 1, "{point}");
    }
    assert!(
        killed * 10 > points.len() * 9,
        "{killed} of {}",
        points.len()
    );
}
