//! `leaks` shows its evidence, and `gc` releases nothing that is in use.

use std::fs;
use std::time::{Duration, SystemTime};

use harness::Sandbox;
use serde_json::{Value, json};

use super::{GONE, THERE, add, id, json_of, network, status};

/// The output of `leaks`: containers and evidence.
fn leaks(sandbox: &Sandbox, words: &[&str]) -> Vec<(String, Value)> {
    let words = [&["leaks"], words].concat();
    let rows = json_of(sandbox, &words);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| {
        (
            row["containerID"].as_str().unwrap().to_owned(),
            row["evidence"].clone(),
        )
    })
    .collect()
}

#[test]
fn a_container_whose_netns_is_gone_is_a_leak_and_one_whose_netns_is_there_is_none() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    add(&sandbox, &config, &id("a2"), GONE);
    assert_eq!(leaks(&sandbox, &[]), [(id("a2"), json!(["netns-gone"]))]);
    let output = sandbox.ipamctl(&["leaks"]).run();
    assert_eq!(status(&output), Some(1));
    assert!(
        output.stdout.contains(&format!("--container {}", id("a2"))),
        "{output:?}"
    );
}

#[test]
fn without_record_and_list_nothing_is_known_and_that_is_said() {
    let sandbox = Sandbox::default();
    let folder = sandbox.data_dir().join("old");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("10.1.0.2"), "c1\r\neth0").unwrap();
    assert_eq!(
        leaks(&sandbox, &[]),
        [("c1".to_owned(), json!(["unknown"]))]
    );
    assert_eq!(status(&sandbox.ipamctl(&["leaks"]).run()), Some(0));
    let list = |ids: &str| {
        let words = ["leaks", "--json", "--older-than", "0s", "--valid", "-"];
        sandbox.ipamctl(&words).stdin(ids).run().stdout
    };
    assert_eq!(list("c1\n").trim(), "[]");
    assert!(list("c2\n").contains("not-valid"));
    // A container that was created just now may be missing in the list.
    let young = sandbox.ipamctl(&["leaks", "--json", "--valid", "-"]);
    assert!(!young.stdin("c2\n").run().stdout.contains("not-valid"));
}

#[test]
fn an_add_that_was_killed_long_ago_is_a_leak() {
    let sandbox =
        Sandbox::default().with_script("ipam-ds-slow", "[ $CNI_COMMAND != ADD ] || sleep 30");
    let delegates = ["ipam-ds-slow", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &json!({}));
    let call = sandbox
        .call("ipam-delegated", "ADD", &config)
        .container(&id("a1"));
    let running = call.env("CNI_NETNS", THERE).start();
    let record = sandbox
        .state_dir()
        .join("testnet")
        .join(format!("{}:eth0.json", id("a1")));
    while fs::metadata(&record).map_or(0, |metadata| metadata.len()) == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    sandbox.write_conflist("10-testnet.conflist", &config);
    // The ADD is recent, and running.
    assert_eq!(leaks(&sandbox, &[]), []);
    let mut rows = json_of(&sandbox, &["leaks", "--older-than", "0s"]);
    assert_eq!(rows[0]["evidence"], json!(["pending"]));
    assert_eq!(rows[0]["locked"], true);
    let gc = sandbox.ipamctl(&["gc", "--valid", "-", "--older-than", "0s"]);
    let kept = gc.stdin(id("b9")).run();
    assert!(
        kept.stdout.contains("kept: its lock is held by process"),
        "{kept:?}"
    );
    let refused = sandbox.ipamctl(&["release", "a1"]).run();
    assert_eq!(status(&refused), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("is still running"), "{refused:?}");
    running.kill();
    for process in sandbox.processes() {
        let pid = process.split(' ').next().unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    assert_eq!(sandbox.processes_that_stay(), [""; 0]);
    rows = json_of(&sandbox, &["leaks", "--older-than", "0s"]);
    assert_eq!(rows[0]["locked"], false);
    let gc = sandbox.ipamctl(&["gc", "--valid", "-", "--older-than", "0s", "--even-in-use"]);
    let output = gc.stdin(id("b9")).run();
    assert!(output.stdout.contains(": released"), "{output:?}");
    assert_eq!(sandbox.records("testnet"), [""; 0]);
}

#[test]
fn gc_releases_what_is_old_and_not_in_the_list_and_nothing_else() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    for name in ["a1", "a2"] {
        add(&sandbox, &config, &id(name), GONE);
    }
    let gc = |words: &[&str]| {
        let words = [&["gc", "--valid", "-"], words].concat();
        sandbox.ipamctl(&words).stdin(id("a1")).run()
    };
    let young = gc(&[]);
    assert!(
        young.stdout.contains("kept: it is younger than 10 min"),
        "{young:?}"
    );
    let dry = gc(&["--older-than", "0s", "--dry-run"]);
    assert!(dry.stdout.contains("would be released"), "{dry:?}");
    assert_eq!(sandbox.reserved("testnet").len(), 2);
    let other = gc(&["--older-than", "0s", "--network", "nowhere"]);
    assert_eq!(status(&other), Some(2));
    let done = gc(&["--older-than", "0s"]);
    assert_eq!(status(&done), Some(0), "{done:?}");
    assert_eq!(sandbox.reserved("testnet"), ["10.77.0.2"]);
    assert_eq!(sandbox.records("testnet").len(), 1);
    // A second run has nothing to do.
    assert!(gc(&["--older-than", "0s"]).stdout.is_empty());
}

#[test]
fn gc_refuses_an_empty_and_a_shortened_list() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), GONE);
    let gc = |list: &str, words: &[&str]| {
        let words = [&["gc", "--older-than", "0s", "--valid", "-"], words].concat();
        sandbox.ipamctl(&words).stdin(list).run()
    };
    for (list, reason) in [
        ("", "--none-valid"),
        ("a10000000000\n", "--no-trunc"),
        ("CONTAINER ID\n", "line 1"),
    ] {
        let refused = gc(list, &[]);
        assert_eq!(status(&refused), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
        assert_eq!(sandbox.reserved("testnet").len(), 1);
    }
    gc("", &["--none-valid"]);
    assert_eq!(sandbox.reserved("testnet").len(), 0);
}

#[test]
fn gc_collects_a_reservation_that_has_no_record_through_todays_conflist() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    let file = sandbox.data_dir().join("testnet/10.77.0.2");
    let old = SystemTime::now() - Duration::from_secs(3_600);
    fs::File::options()
        .append(true)
        .open(file)
        .unwrap()
        .set_modified(old)
        .unwrap();
    let output = sandbox
        .ipamctl(&["gc", "--valid", "-"])
        .stdin(id("a2"))
        .run();
    assert!(output.stdout.contains(": released"), "{output:?}");
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
    assert_eq!(sandbox.records("testnet"), [""; 0]);
}

#[test]
fn gc_leaves_what_is_in_use_and_in_no_list() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    // A build step has a namespace, but host-local leaves no record of it.
    add(&sandbox, &config, "buildah-buildah1", THERE);
    let folder = sandbox.data_dir().join("old");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("10.1.0.2"), "buildah-buildah2\r\neth0").unwrap();
    let gc = |words: &[&str]| {
        let words = [&["gc", "--older-than", "0s", "--valid", "-"], words].concat();
        sandbox.ipamctl(&words).stdin(id("a1")).run()
    };
    let kept = gc(&[]).stdout;
    assert!(
        kept.contains("kept: its network namespace /proc/self/ns/net is there"),
        "{kept}"
    );
    assert!(kept.contains("kept: it may be a step of a build"), "{kept}");
    assert_eq!(sandbox.reserved("testnet").len(), 1);
    gc(&["--even-in-use", "--network", "testnet"]);
    assert_eq!(sandbox.reserved("testnet").len(), 0);
}

#[test]
fn gc_compares_ages_with_the_time_of_the_list() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    let list = sandbox.root().join("valid");
    fs::write(&list, id("a1")).unwrap();
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    let opened = fs::File::options().append(true).open(&list).unwrap();
    opened.set_modified(an_hour_ago).unwrap();
    add(&sandbox, &config, &id("a2"), GONE);
    let words = [
        "gc",
        "--older-than",
        "0s",
        "--valid",
        list.to_str().unwrap(),
    ];
    let output = sandbox.ipamctl(&words).run();
    assert!(
        output.stdout.contains("kept: it is younger than"),
        "{output:?}"
    );
    assert_eq!(sandbox.reserved("testnet").len(), 1);
}

#[test]
fn gc_goes_on_though_nobody_reads_what_it_prints() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    for i in 0..4 {
        add(&sandbox, &config, &id(&format!("a{i}")), GONE);
    }
    let words = ["gc", "--older-than", "0s", "--none-valid", "--valid", "-"];
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut gc = std::process::Command::new(sandbox.ipamctl(&words).executable());
    let call = sandbox.ipamctl(&words);
    gc.args(call.words().skip(1));
    let status = gc
        .stdin(std::process::Stdio::null())
        .stdout(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}
