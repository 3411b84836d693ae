//! What bad input gets: a CNI error object on stdout with an exact code, an
//! exit status other than 0, a message that names what is wrong, and nothing
//! left behind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use harness::{Call, Sandbox};
use serde_json::{Value, json};

const PLUGINS: [&str; 3] = ["ipam-delegated", "ipam-ds-ranges", "ipam-da-host-local"];

const DELEGATES: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// A configuration with which every command of the chain succeeds.
fn good(sandbox: &Sandbox) -> Value {
    let ipam = json!({"ranges": [[{"subnet": "10.7.0.0/24"}]]});
    let mut config = sandbox.config("1.1.0", &DELEGATES, &ipam);
    config["prevResult"] = json!({"ips": []});
    config["cni.dev/valid-attachments"] = json!([]);
    config
}

/// Checks that the call gets this code, that the message says all these words,
/// and that nothing is reserved afterwards.
#[track_caller]
fn gets(sandbox: &Sandbox, call: Call, code: u64, words: &[&str]) {
    let output = call.run();
    let error = output.error();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["cniVersion"].is_string(), "{error}");
    for word in words {
        assert!(
            error["msg"].as_str().unwrap().contains(word),
            "{word:?} in {error}"
        );
    }
    assert!(sandbox.reserved("testnet").is_empty(), "{error}");
}

#[test]
fn the_good_configuration_is_good() {
    let sandbox = Sandbox::default();
    for command in ["STATUS", "ADD", "GC", "DEL"] {
        let output = sandbox
            .call("ipam-delegated", command, &good(&sandbox))
            .run();
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

#[test]
fn delegates_that_are_no_list_of_names() {
    let sandbox = Sandbox::default();
    for (delegates, words) in [
        (json!(null), ["ipam.delegates", "missing"]),
        (
            json!("ipam-ds-ranges"),
            ["ipam.delegates", "\"ipam-ds-ranges\""],
        ),
        (json!({}), ["ipam.delegates", "map"]),
        (json!([]), ["ipam.delegates", "[]"]),
        (json!(["ipam-ds-ranges", 5]), ["ipam.delegates[1]", "`5`"]),
        (
            json!(["ipam-ds-ranges", null]),
            ["ipam.delegates[1]", "null"],
        ),
        (json!([""]), ["ipam.delegates[0]", "\"\""]),
        (json!(["/bin/true"]), ["ipam.delegates[0]", "\"/bin/true\""]),
        (
            json!(["./ipam-ds-ranges"]),
            ["ipam.delegates[0]", "\"./ipam-ds-ranges\""],
        ),
        (json!(["../plugins/x"]), ["ipam.delegates[0]", "CNI_PATH"]),
        (json!([".."]), ["ipam.delegates[0]", "\"..\""]),
    ] {
        let mut config = good(&sandbox);
        config["ipam"]["delegates"] = delegates;
        for command in ["ADD", "CHECK", "GC", "STATUS"] {
            gets(
                &sandbox,
                sandbox.call("ipam-delegated", command, &config),
                7,
                &words,
            );
        }
        // Nothing is recorded, so there is nothing to undo.
        let output = sandbox.call("ipam-delegated", "DEL", &config).run();
        output.nothing();
        for word in words.iter().chain(&["WARN"]) {
            assert!(output.stderr.contains(word), "{word}: {output:?}");
        }
    }
    let mut config = good(&sandbox);
    config["ipam"].as_object_mut().unwrap().remove("delegates");
    gets(
        &sandbox,
        sandbox.call("ipam-delegated", "ADD", &config),
        7,
        &["ipam.delegates is missing"],
    );
}

#[test]
fn a_configuration_without_an_ipam_section() {
    let sandbox = Sandbox::default();
    for (ipam, words) in [
        (json!(null), "ipam is missing"),
        (json!("x"), "ipam: invalid type"),
    ] {
        let mut config = good(&sandbox);
        config["ipam"] = ipam;
        for plugin in PLUGINS {
            gets(&sandbox, sandbox.call(plugin, "ADD", &config), 7, &[words]);
        }
    }
}

#[test]
fn delegates_that_fail() {
    // The delegate comes last, so that an address has been reserved by then.
    let sandbox = Sandbox::default()
        .with_script("by-signal", "kill -9 $$")
        .with_script("without-json", "echo disk on fire >&2; exit 3")
        .with_script("with-text", "echo disk on fire; exit 3")
        .with_script("with-nothing", "exit 0")
        .with_script("with-space", "echo")
        .with_script("with-garbage", "echo done.")
        .with_script("with-half-an-object", "printf '{\"ips\": ['")
        .with_script("with-an-array", "echo '[]'")
        .with_script("with-null", "echo null")
        .with_script("with-two-objects", "echo '{}{}'")
        .with_script("with-bytes", r#"printf '{"a":"\377"}'"#)
        .with_script("without-end", "exec yes")
        .with_script(
            "with-a-code",
            "echo '{\"code\": 42, \"msg\": \"own words\"}'; exit 1",
        )
        .with_script(
            "with-a-code-and-status-0",
            "echo '{\"code\": 42, \"msg\": \"own words\"}'",
        )
        .with_script("not-executable", "");
    let not_executable = sandbox.plugins().join("not-executable");
    fs::set_permissions(&not_executable, fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.write_executable("no-program", "\x7fELF, but no");
    fs::create_dir(sandbox.plugins().join("a-folder")).unwrap();

    for (delegate, code, word) in [
        ("nowhere", 100, "no such plugin in CNI_PATH"),
        ("not-executable", 100, "no such plugin in CNI_PATH"),
        ("a-folder", 100, "no such plugin in CNI_PATH"),
        ("no-program", 101, "could not be run"),
        ("by-signal", 102, "SIGKILL"),
        ("without-json", 103, "exit status: 3"),
        ("with-text", 103, "exit status: 3"),
        ("with-nothing", 104, "no result"),
        ("with-space", 104, "no result"),
        ("with-garbage", 105, "no JSON object"),
        ("with-half-an-object", 105, "EOF"),
        ("with-an-array", 105, "expected an object"),
        ("with-null", 105, "expected an object"),
        ("with-two-objects", 105, "trailing"),
        ("with-bytes", 105, "utf-8"),
        ("without-end", 105, "more than"),
        ("with-a-code", 42, "own words"),
        ("with-a-code-and-status-0", 42, "own words"),
    ] {
        let mut config = good(&sandbox);
        config["ipam"]["delegates"] = json!([DELEGATES[0], DELEGATES[1], delegate]);
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .container(delegate);
        gets(&sandbox, call, code, &[&format!("{delegate}: "), word]);
    }
    // Where there is a file, the details say so.
    let mut config = good(&sandbox);
    config["ipam"]["delegates"] = json!(["not-executable"]);
    let error = sandbox.call("ipam-delegated", "ADD", &config).run().error();
    let details = error["details"].as_str().unwrap();
    assert!(
        details.contains(not_executable.to_str().unwrap()),
        "{error}"
    );
    // What it said last is in the details.
    config["ipam"]["delegates"] = json!(["without-json"]);
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    let error = call.container("c2").run().error();
    assert!(
        error["details"].as_str().unwrap().contains("disk on fire"),
        "{error}"
    );
}

#[test]
fn a_search_path_that_is_none() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        let call = sandbox.call("ipam-delegated", command, &config);
        gets(&sandbox, call.clone().without("CNI_PATH"), 4, &["CNI_PATH"]);
        gets(&sandbox, call.clone().env("CNI_PATH", ""), 4, &["CNI_PATH"]);
        gets(&sandbox, call.env("CNI_PATH", "::"), 4, &["CNI_PATH"]);
    }
    let call = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("CNI_PATH", "/nowhere");
    gets(&sandbox, call, 100, &["/nowhere"]);
}

#[test]
fn stdin_that_is_no_configuration() {
    let sandbox = Sandbox::default();
    let good = serde_json::to_vec(&good(&sandbox)).unwrap();
    let ten_megabytes = 10 << 20;
    let mut ten_megabytes_cut_off = br#"{"cniVersion":"1.1.0","name":"testnet","x":""#.to_vec();
    ten_megabytes_cut_off.resize(ten_megabytes, b'x');
    for plugin in PLUGINS {
        for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            for (stdin, word) in [
                (Vec::new(), "empty"),
                (b" \n".to_vec(), "empty"),
                (b"network".to_vec(), "line 1 column 2"),
                (b"[]".to_vec(), "expected an object"),
                (b"null".to_vec(), "expected an object"),
                (good[..good.len() / 2].to_vec(), "EOF"),
                ([&good[..], b"}"].concat(), "trailing"),
                (b"{\"name\":\"\xff\"}".to_vec(), "utf-8"),
            ] {
                let call = sandbox.call(plugin, command, &Value::Null).stdin(stdin);
                gets(&sandbox, call, 6, &["stdin", word]);
            }
        }
        for stdin in [
            vec![b'x'; ten_megabytes],
            vec![b'['; ten_megabytes],
            b"{\"a\":".repeat(ten_megabytes / 5),
            ten_megabytes_cut_off.clone(),
        ] {
            let call = sandbox.call(plugin, "ADD", &Value::Null).stdin(stdin);
            gets(&sandbox, call, 6, &["stdin"]);
        }
    }
}

#[test]
fn ten_megabytes_of_configuration_are_handed_on_whole() {
    let sandbox = Sandbox::default().with_script("size", r#"printf '{"size": %s}' "$(wc -c)""#);
    let mut config = good(&sandbox);
    config["ipam"]["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local"]);
    config["padding"] = json!("x".repeat(10 << 20));
    let output = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(output.ips(), ["10.7.0.2"]);
    config["ipam"]["delegates"] = json!(["size"]);
    let size = sandbox
        .call("ipam-delegated", "ADD", &config)
        .container("c2")
        .run()
        .result();
    assert_eq!(size["size"], serde_json::to_vec(&config).unwrap().len());
}

/// Which variables the specification requires, by command.
const REQUIRED: [(&str, &[&str]); 5] = [
    ("ADD", &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]),
    ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME"]),
    ("CHECK", &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]),
    ("GC", &["CNI_PATH"]),
    ("STATUS", &[]),
];

#[test]
fn variables_that_are_missing_or_malformed() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for plugin in PLUGINS {
        for (command, required) in REQUIRED {
            let call = sandbox.call(plugin, command, &config);
            for name in required {
                gets(&sandbox, call.clone().without(name), 4, &[name]);
                gets(&sandbox, call.clone().env(name, ""), 4, &[name]);
            }
            if !required.contains(&"CNI_CONTAINERID") {
                continue;
            }
            for id in ["../../etc", "-x", "a b", "a/b", "ä", ".hidden"] {
                gets(
                    &sandbox,
                    call.clone().env("CNI_CONTAINERID", id),
                    4,
                    &["CNI_CONTAINERID", id],
                );
            }
            for name in [".", "..", "a/b", "a:b", "a b", "sixteen-bytes-xx"] {
                gets(
                    &sandbox,
                    call.clone().env("CNI_IFNAME", name),
                    4,
                    &["CNI_IFNAME", name],
                );
            }
            for name in ["CNI_CONTAINERID", "CNI_IFNAME"] {
                let not_text = OsStr::from_bytes(b"a\xff");
                gets(
                    &sandbox,
                    call.clone().env(name, not_text),
                    4,
                    &[name, "UTF-8"],
                );
            }
        }
    }
}

#[test]
fn arguments_that_are_malformed_or_unknown() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for args in [
        "IP",
        "IP=10.7.0.5;",
        "IP=a=b",
        "IP=10.7.0",
        "IP=10.7.0.5/99",
        "COLOUR=blue",
    ] {
        let call = sandbox
            .call("ipam-ds-ranges", "ADD", &config)
            .env("CNI_ARGS", args);
        gets(&sandbox, call, 4, &["CNI_ARGS"]);
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .env("CNI_ARGS", args);
        gets(&sandbox, call, 4, &["ipam-ds-ranges", "CNI_ARGS"]);
    }
    let call = sandbox.call("ipam-ds-ranges", "ADD", &config);
    gets(
        &sandbox,
        call.env("CNI_ARGS", OsStr::from_bytes(b"IP=\xff")),
        4,
        &["CNI_ARGS", "UTF-8"],
    );
}

#[test]
fn commands_that_are_none() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for plugin in PLUGINS {
        for command in ["UPDATE", "add", "ADD ", "\u{e4}"] {
            gets(
                &sandbox,
                sandbox.call(plugin, command, &config),
                4,
                &["CNI_COMMAND", command],
            );
        }
        gets(
            &sandbox,
            sandbox.call(plugin, "", &config),
            4,
            &["CNI_COMMAND"],
        );
        // A runtime that has set the other variables gets an answer.
        let call = sandbox.call(plugin, "ADD", &config).without("CNI_COMMAND");
        gets(&sandbox, call, 4, &["CNI_COMMAND"]);
    }
}

#[test]
fn versions_that_are_not_supported() {
    let sandbox = Sandbox::default();
    for plugin in PLUGINS {
        for (version, code) in [
            (json!("0.1.0"), 1),
            (json!("0.2.0"), 1),
            (json!("1.2.0"), 1),
            (json!("one"), 1),
            (json!(""), 1),
            (json!(null), 1),
            (json!(1.0), 6),
        ] {
            let mut config = good(&sandbox);
            config["cniVersion"] = version;
            gets(
                &sandbox,
                sandbox.call(plugin, "ADD", &config),
                code,
                &["cniVersion"],
            );
        }
        // Versions that don't have the command.
        for (version, command) in [
            ("0.3.1", "CHECK"),
            ("0.3.1", "GC"),
            ("1.0.0", "GC"),
            ("0.4.0", "STATUS"),
            ("1.0.0", "STATUS"),
        ] {
            let mut config = good(&sandbox);
            config["cniVersion"] = json!(version);
            gets(
                &sandbox,
                sandbox.call(plugin, command, &config),
                1,
                &[version, command],
            );
        }
    }
}

#[test]
fn names_that_are_none() {
    let sandbox = Sandbox::default();
    for plugin in PLUGINS {
        for (name, word) in [
            (json!(null), "name is missing"),
            (json!(""), "name: \"\""),
            (json!("../x"), "name: \"../x\""),
            (json!("a b"), "name: \"a b\""),
            (json!(5), "name: invalid type: integer `5`"),
        ] {
            let mut config = good(&sandbox);
            config["name"] = name;
            gets(&sandbox, sandbox.call(plugin, "ADD", &config), 7, &[word]);
        }
    }
}

/// Every refusal of a configuration of ranges, through the chain and by the
/// selector alone.
#[test]
fn ranges_that_are_none() {
    let sandbox = Sandbox::default();
    for (ipam, words) in [
        (json!({}), ["ipam.ranges", "missing"]),
        (json!({"ranges": []}), ["ipam.ranges", "empty"]),
        (json!({"ranges": [[]]}), ["ipam.ranges[0]", "empty"]),
        (
            json!({"ranges": "10.7.0.0/24"}),
            ["ipam.ranges", "\"10.7.0.0/24\""],
        ),
        (
            json!({"ranges": [{"subnet": "10.7.0.0/24"}]}),
            ["ipam.ranges[0]", "map"],
        ),
        (
            json!({"ranges": [[{}]]}),
            ["ipam.ranges[0][0].subnet", "missing"],
        ),
        (
            json!({"ranges": [[{"subnet": "10.7.0.0"}]]}),
            ["ipam.ranges[0][0].subnet", "\"10.7.0.0\""],
        ),
        // Host bits set.
        (
            json!({"ranges": [[{"subnet": "10.7.0.9/24"}]]}),
            ["ipam.ranges[0][0].subnet", "10.7.0.9/24"],
        ),
        // Too small.
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/31"}]]}),
            ["ipam.ranges[0][0].subnet", "10.7.0.0/31"],
        ),
        (
            json!({"ranges": [[{"subnet": "fd00::/127"}]]}),
            ["ipam.ranges[0][0].subnet", "fd00::/127"],
        ),
        // Start or end outside, or the wrong way round.
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/24", "rangeStart": "10.8.0.5"}]]}),
            ["ipam.ranges[0][0].rangeStart", "10.8.0.5"],
        ),
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/24", "rangeEnd": "10.8.0.5"}]]}),
            ["ipam.ranges[0][0].rangeEnd", "10.8.0.5"],
        ),
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.9", "rangeEnd": "10.7.0.5"}]]}),
            ["ipam.ranges[0][0].rangeStart", "10.7.0.9"],
        ),
        (
            json!({"subnet": "10.7.0.0/24", "rangeStart": "x"}),
            ["ipam.rangeStart", "\"x\""],
        ),
        (
            json!({"subnet": "10.7.0.0/24", "gateway": "x"}),
            ["ipam.gateway", "\"x\""],
        ),
        // Mixed families in a set.
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/24"}, {"subnet": "fd00::/64"}]]}),
            ["ipam.ranges[0][1].subnet", "fd00::/64"],
        ),
        // Overlap inside of a set, and between sets.
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/24"}, {"subnet": "10.7.0.128/25"}]]}),
            ["ipam.ranges[0][1].subnet", "10.7.0.129-10.7.0.254"],
        ),
        (
            json!({"subnet": "10.7.0.0/24", "ranges": [[{"subnet": "10.7.0.128/25"}]]}),
            ["ipam.ranges[0]", "10.7.0.129-10.7.0.254"],
        ),
    ] {
        let config = sandbox.config("1.1.0", &DELEGATES, &ipam);
        for (plugin, prefix) in [
            ("ipam-ds-ranges", ""),
            ("ipam-delegated", "ipam-ds-ranges: "),
        ] {
            let first = format!("{prefix}{}", words[0]);
            gets(
                &sandbox,
                sandbox.call(plugin, "ADD", &config),
                7,
                &[&first, words[1]],
            );
        }
    }
}

#[test]
fn ranges_of_the_runtime_that_are_none() {
    let sandbox = Sandbox::default();
    for (ranges, words) in [
        (
            json!([[{"subnet": "10.9.0.1/24"}]]),
            ["runtimeConfig.ipRanges[0][0].subnet", "10.9.0.1/24"],
        ),
        (
            json!([[{"subnet": "10.7.0.0/16"}]]),
            ["ipam.ranges[0]", "runtimeConfig.ipRanges[0]"],
        ),
    ] {
        let mut config = good(&sandbox);
        config["runtimeConfig"] = json!({"ipRanges": ranges});
        gets(
            &sandbox,
            sandbox.call("ipam-delegated", "ADD", &config),
            7,
            &words,
        );
    }
}

#[test]
fn requests_that_no_pool_serves() {
    let sandbox = Sandbox::default();
    let call = |key: &str, ips: Value| {
        let mut config = good(&sandbox);
        match key {
            "args.cni.ips" => config["args"] = json!({"cni": {"ips": ips}}),
            _ => config["runtimeConfig"] = json!({"ips": ips}),
        }
        sandbox.call("ipam-delegated", "ADD", &config)
    };
    for key in ["args.cni.ips", "runtimeConfig.ips"] {
        for (ips, element, value) in [
            (json!(["10.8.0.5"]), "[0]", "10.8.0.5"),
            (json!(["10.7.0.5", "10.7.0.6"]), "[1]", "10.7.0.6"),
            (json!(["10.7.0.5", "fd00::5"]), "[1]", "fd00::5"),
            (json!(["x"]), "[0]", "\"x\""),
            (json!([""]), "[0]", "\"\""),
            (json!([5]), "[0]", "`5`"),
        ] {
            gets(
                &sandbox,
                call(key, ips),
                7,
                &[&format!("{key}{element}"), value],
            );
        }
        gets(&sandbox, call(key, json!("10.7.0.5")), 7, &[key]);
        // The gateway is in the pool, and can't be given.
        gets(
            &sandbox,
            call(key, json!(["10.7.0.1"])),
            7,
            &["10.7.0.1", "gateway"],
        );
    }
    let config = good(&sandbox);
    let call = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("CNI_ARGS", "IP=10.8.0.5");
    gets(&sandbox, call, 7, &["CNI_ARGS", "10.8.0.5"]);
}

#[test]
fn what_an_allocator_cannot_use() {
    let sandbox = Sandbox::default();
    let add = |keys: &[(&str, Value)]| {
        let mut config = good(&sandbox);
        for (key, value) in keys {
            match key.strip_prefix("ipam.") {
                Some(key) => config["ipam"][key] = value.clone(),
                None => config["prevResult"] = json!({ "pools": value }),
            }
        }
        sandbox.call("ipam-da-host-local", "ADD", &config)
    };
    let pool = json!([{"subnet": "10.7.0.0/24"}]);
    let missing = ["prevResult.pools", "missing"];
    gets(&sandbox, add(&[]), 7, &missing);
    gets(&sandbox, add(&[("pools", json!([]))]), 7, &missing);
    gets(
        &sandbox,
        add(&[("pools", json!({}))]),
        7,
        &["prevResult.pools", "map"],
    );
    gets(
        &sandbox,
        add(&[("pools", json!([{}]))]),
        7,
        &["prevResult.pools[0].ranges"],
    );
    for name in ["", "../x", "a/b", "."] {
        let pools = json!([{"name": name, "subnet": "10.7.0.0/24"}]);
        gets(
            &sandbox,
            add(&[("pools", pools)]),
            7,
            &["prevResult.pools[0].name", name],
        );
    }
    let overlapping = json!([{"subnet": "10.7.0.0/24"}, {"subnet": "10.7.0.0/25"}]);
    gets(
        &sandbox,
        add(&[("pools", overlapping)]),
        7,
        &["prevResult.pools[1]", "overlaps"],
    );
    for (routes, word) in [
        (json!([{}]), "ipam.routes[0].dst is missing"),
        (json!([{"dst": "x"}]), "ipam.routes[0].dst: \"x\""),
        (
            json!([{"dst": "0.0.0.0/0", "gw": "x"}]),
            "ipam.routes[0].gw: \"x\"",
        ),
        (json!("x"), "ipam.routes"),
    ] {
        gets(
            &sandbox,
            add(&[("pools", pool.clone()), ("ipam.routes", routes)]),
            7,
            &[word],
        );
    }
    let call = add(&[
        ("pools", pool.clone()),
        ("ipam.resolvConf", json!("/nowhere/resolv.conf")),
    ]);
    gets(
        &sandbox,
        call,
        5,
        &["ipam.resolvConf", "/nowhere/resolv.conf"],
    );
    let call = add(&[("pools", pool.clone()), ("ipam.dataDir", json!(5))]);
    gets(&sandbox, call, 7, &["ipam.dataDir", "`5`"]);
    let file = sandbox.root().join("a-file");
    fs::write(&file, "").unwrap();
    let call = add(&[("pools", pool), ("ipam.dataDir", json!(file))]);
    gets(&sandbox, call, 5, &[file.to_str().unwrap()]);
}

#[test]
fn gc_without_a_list_of_valid_attachments_releases_nothing() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    sandbox
        .call("ipam-delegated", "ADD", &config)
        .run()
        .result();
    for list in [None, Some(json!({})), Some(json!([{"containerID": "c1"}]))] {
        let mut config = config.clone();
        let keys = config.as_object_mut().unwrap();
        keys.remove("cni.dev/valid-attachments");
        keys.extend(list.map(|list| ("cni.dev/valid-attachments".to_owned(), list)));
        let error = sandbox.call("ipam-delegated", "GC", &config).run().error();
        assert_eq!(error["code"], 7);
        assert!(
            error["msg"]
                .as_str()
                .unwrap()
                .contains("cni.dev/valid-attachments"),
            "{error}"
        );
        assert_eq!(sandbox.reserved("testnet"), ["10.7.0.2"]);
    }
}
