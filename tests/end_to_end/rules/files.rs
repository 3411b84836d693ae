//! `poolsDir`, the folder of files with pools and rules, and its compiled catalogue.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use harness::Sandbox;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::CHAIN;

#[test]
fn files_of_a_folder_are_read_again_when_they_change() {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, content: &Value| {
        fs::write(folder.join("new"), content.to_string()).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    };
    let ipam = json!({"poolsDir": folder, "pools": {"own": {"subnet": "10.1.0.0/24"}}});
    let config = sandbox.config("1.1.0", &CHAIN, &ipam);
    let add = |pod: &str| sandbox.pod_call("ADD", &config, "prod", pod).run();

    let error = add("a").error();
    assert_eq!(error["code"], 7);
    let msg = error["msg"].as_str().unwrap();
    assert!(
        msg.ends_with("and ipam.poolsDir has no rule: no pool is chosen"),
        "{msg}"
    );

    write("90-rest.json", &json!({"rules": [{"pools": ["own"]}]}));
    write(".hidden.json", &json!("an editor's"));
    write("notes.txt", &json!("of somebody"));
    assert_eq!(add("a").ips(), ["10.1.0.2"]);
    write(
        "10-tenant.json",
        &json!({"pools": {"tenant": {"subnet": "10.2.0.0/24"}},
                "rules": [{"when": {"K8S_POD_NAME": "t-*"}, "pools": ["tenant"]}]}),
    );
    assert_eq!(add("t-1").ips(), ["10.2.0.2"]);
    // With the cache, and without it.
    for (pod, remove) in [("t-2", false), ("t-3", true), ("t-4", false)] {
        if remove {
            fs::remove_dir_all(sandbox.cache_dir()).unwrap();
        }
        assert_eq!(add(pod).ips()[0][..7], *"10.2.0.", "{pod}");
    }

    for (broken, message) in [
        (
            json!({"rules": [{"pools": ["nowhere"]}]}),
            ": rules[0].pools[0]: there is no pool \"nowhere\"",
        ),
        (
            json!({"pools": {"own": {}}}),
            ": pools.own is defined twice, the first time as ipam.pools.own",
        ),
        (
            json!({"pools": {"more": {"subnet": "10.2.0.128/25"}}}),
            ": pools.more: 10.2.0.129-10.2.0.254 overlaps 10.2.0.1-10.2.0.254 of ",
        ),
    ] {
        write("50-broken.json", &broken);
        let file = folder.join("50-broken.json");
        for command in ["ADD", "STATUS"] {
            let error = sandbox
                .pod_call(command, &config, "prod", "b")
                .run()
                .error();
            let msg = error["msg"].as_str().unwrap().to_owned();
            assert!(
                msg.contains(&format!("{}{message}", file.display())),
                "{command}: {msg}"
            );
        }
        // Addresses of an earlier catalogue can be released.
        sandbox
            .pod_call("DEL", &config, "prod", "a")
            .run()
            .nothing();
    }
    fs::remove_file(folder.join("50-broken.json")).unwrap();
    sandbox.pod_call("STATUS", &config, "", "").run().nothing();
    assert_eq!(add("t-5").ips()[0][..7], *"10.2.0.");
}

#[test]
fn a_cache_with_other_content_is_not_used() {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("1.json");
    let rules = json!({"pools": {"p": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["p"]}]});
    fs::write(&file, rules.to_string()).unwrap();
    // Old enough that its time differs from that of a later content.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.set_modified(long_ago).unwrap();
    let changed = Instant::now();
    let config = sandbox.config("1.1.0", &CHAIN, &json!({"poolsDir": folder}));
    let cache = sandbox.cache_dir().join("catalogue.testnet");
    let add = |pod: &str| sandbox.pod_call("ADD", &config, "prod", pod).run().ips();
    assert_eq!(add("a"), ["10.1.0.2"]);
    // The kernel's change time is recent, unless the call took longer than that.
    assert!(!cache.exists() || changed.elapsed() > Duration::from_secs(2));
    std::thread::sleep(Duration::from_millis(3100));
    assert_eq!(add("b"), ["10.1.0.3"]);
    let whole = fs::read(&cache).unwrap();
    assert_eq!(add("c"), ["10.1.0.4"]);
    // Another build of the same version may have left other content behind the same beginning.
    let longer = [&whole[..], b"\0"].concat();
    for end in [0, 1, whole.len() / 2, whole.len() - 1, longer.len()] {
        fs::write(&cache, &longer[..end]).unwrap();
        // The first call finds the damage, the second replaces the file.
        for pod in [format!("cut-{end}"), format!("anew-{end}")] {
            assert_eq!(add(&pod)[0][..7], *"10.1.0.");
        }
        assert_eq!(fs::read(&cache).unwrap(), whole);
    }
    // Different content of the same length.
    let other = rules.to_string().replace("10.1.0.0", "10.7.0.0");
    fs::write(&file, other).unwrap();
    opened.set_modified(long_ago).unwrap();
    assert_eq!(add("d"), ["10.7.0.2"]);
}

#[test]
fn a_process_that_holds_the_caches_lock_holds_up_no_call() {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let rules = json!({"pools": {"p": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["p"]}]});
    fs::write(folder.join("1.json"), rules.to_string()).unwrap();
    let config = sandbox.config("1.1.0", &CHAIN, &json!({"poolsDir": folder}));
    fs::create_dir(sandbox.cache_dir()).unwrap();
    fs::set_permissions(sandbox.cache_dir(), fs::Permissions::from_mode(0o700)).unwrap();
    let locked = fs::File::create(sandbox.cache_dir().join("lock")).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(3100));
    let output = sandbox.pod_call("ADD", &config, "dev", "p").run();
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(!sandbox.cache_dir().join("catalogue.testnet").exists());
}
