//! Entries in `dataDir` that aren't directories of reservations, and directories that can't be
//! read. A missing directory prevents no release; one that is unreadable, or behind a link that leads
//! nowhere, doesn't count as missing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use harness::{ALLOCATOR, Call, RANGES_CHAIN, Sandbox, needs};
use serde_json::{Value, json};

fn blue() -> Value {
    json!([{"name": "blue", "subnet": "10.2.0.0/24"}])
}

/// The configuration after a selector that prints no pools.
fn without_pools(config: &Value) -> Value {
    let mut config = config.clone();
    config["prevResult"] = json!({"ips": []});
    config
}

#[test]
fn what_is_certainly_no_directory_hinders_no_del_and_no_gc() {
    let sandbox = Sandbox::default();
    let config = sandbox.allocator_config(&blue());
    fs::create_dir(sandbox.data_dir()).unwrap();
    fs::write(sandbox.data_dir().join("file"), "c1\r\neth0").unwrap();
    // Directories whose lock can't be taken, without a reservation of ours.
    for name in ["locked", "testnet"] {
        let directory = sandbox.data_dir().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("10.9.0.2"), "c2\r\neth0\r\nanother").unwrap();
        symlink("lock", directory.join("lock")).unwrap();
    }
    for command in ["DEL", "GC"] {
        sandbox.call(ALLOCATOR, "ADD", &config).run().result();
        // With and without a selector's pools.
        for config in [&config, &without_pools(&config)] {
            let output = sandbox.call(ALLOCATOR, command, config).run();
            output.nothing();
            assert!(output.stderr.is_empty(), "{output:?}");
            assert!(sandbox.reserved("pools").is_empty());
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_is_named_and_hinders_no_other_release() {
    let sandbox = Sandbox::default();
    let config = sandbox.allocator_config(&blue());
    fs::create_dir(sandbox.data_dir()).unwrap();
    symlink("loop", sandbox.data_dir().join("loop")).unwrap();
    symlink("nowhere", sandbox.data_dir().join("dangling")).unwrap();
    for command in ["DEL", "GC"] {
        sandbox.call(ALLOCATOR, "ADD", &config).run().result();
        let config = without_pools(&config);
        let output = sandbox.call(ALLOCATOR, command, &config).run();
        output.nothing();
        output.warns(["loop", "dangling"]);
        assert!(sandbox.reserved("pools").is_empty());
    }
}

#[test]
fn a_disk_that_is_not_mounted_fails_del_and_status_and_keeps_the_record() {
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_one_range("1.1.0", &RANGES_CHAIN, &json!({}));
    let call = |command: &str| sandbox.run(command, &config);
    let (disk, away) = (sandbox.root().join("disk"), sandbox.root().join("away"));
    for folder in [sandbox.data_dir(), sandbox.state_dir()] {
        fs::create_dir(&disk).unwrap();
        let _ = fs::remove_dir_all(&folder);
        symlink(&disk, &folder).unwrap();
        call("ADD").result();
        fs::rename(&disk, &away).unwrap();
        assert_eq!(call("STATUS").code(), 50);
        let mut of_gc = config.clone();
        of_gc["cni.dev/valid-attachments"] = json!([]);
        for output in [call("DEL"), sandbox.run("GC", &of_gc)] {
            let error = output.error();
            let msg = error["msg"].as_str().unwrap();
            assert!(msg.contains("leads nowhere"), "{error}");
        }
        fs::rename(&away, &disk).unwrap();
        assert_eq!(sandbox.reserved("testnet").len(), 1);
        assert_eq!(sandbox.records("testnet").len(), 1);
        call("DEL").nothing();
        assert!(sandbox.reserved("testnet").is_empty());
        fs::remove_file(&folder).unwrap();
        fs::remove_dir_all(&disk).unwrap();
    }
}

#[test]
fn a_file_system_without_locks_for_the_records_fails_status() {
    needs!("trace");
    let sandbox = Sandbox::default();
    let config = sandbox.config_of_one_range("1.1.0", &RANGES_CHAIN, &json!({}));
    let call = |command: &str, error: &str| {
        let call = sandbox.chain_call(command, "c1", &config);
        call.injected(&format!("inject=flock:error={error}")).run()
    };
    assert_eq!(call("ADD", "ENOLCK").code(), 11);
    let folder = sandbox.state_dir().join("testnet");
    let records = format!("records in {}", folder.display());
    call("STATUS", "ENOLCK").refused(50, &records);
    // A GC is running.
    call("STATUS", "EAGAIN:when=1").nothing();
}

#[test]
fn a_network_name_that_no_directory_can_have_is_refused_if_one_would_be_made() {
    let sandbox = Sandbox::default();
    let name = "n".repeat(256);
    let config = |pools: &Value| {
        let mut config = sandbox.allocator_config(pools);
        config["name"] = json!(name);
        config
    };
    let unnamed = config(&json!([{"subnet": "10.2.0.0/24"}]));
    for (command, code) in [("ADD", 5), ("STATUS", 50)] {
        sandbox
            .call(ALLOCATOR, command, &unnamed)
            .run()
            .refused(code, "name too long");
    }
    for command in ["DEL", "GC"] {
        sandbox
            .call(ALLOCATOR, "ADD", &config(&blue()))
            .run()
            .result();
        assert_eq!(sandbox.reserved("pools").len(), 1);
        let release = sandbox.call(ALLOCATOR, command, &config(&blue()));
        release.run().nothing();
        assert!(sandbox.reserved("pools").is_empty());
    }
}

#[test]
fn a_directory_that_can_not_be_looked_at_fails_the_del_of_what_was_found_nowhere_else() {
    needs!("trace");
    let sandbox = Sandbox::default();
    let config = sandbox.allocator_config(&blue());
    sandbox.call(ALLOCATOR, "ADD", &config).run().result();
    let mut config = without_pools(&config);
    // A pool whose directory can't be opened.
    let hidden = sandbox.data_dir().join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("10.3.0.2"), "c1\r\neth0\r\ntestnet").unwrap();
    let strace = |del: Call| {
        let path = hidden.to_str().unwrap();
        let options = ["-P", path, "-e", "inject=openat:error=EACCES"];
        del.traced(Path::new("/dev/null"), &options).run()
    };
    // The address to release was found.
    config["prevResult"]["ips"] = json!([{"address": "10.2.0.2/24"}]);
    let output = strace(sandbox.call(ALLOCATOR, "DEL", &config));
    output.nothing();
    output.warns(["unknown whether"]);
    assert!(sandbox.reserved("pools").is_empty());
    // No address is known that must be released.
    let mut without = config.clone();
    without["prevResult"]["ips"] = json!([]);
    strace(sandbox.call(ALLOCATOR, "DEL", &without)).nothing();
    // The unreadable directory may have it.
    config["prevResult"]["ips"] = json!([{"address": "10.3.0.2/24"}]);
    assert_eq!(strace(sandbox.call(ALLOCATOR, "DEL", &config)).code(), 11);
    assert_eq!(sandbox.reserved("hidden"), ["10.3.0.2"]);
    sandbox.call(ALLOCATOR, "DEL", &config).run().nothing();
    assert!(sandbox.reserved("hidden").is_empty());
}
