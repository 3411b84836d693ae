//! Differential test beside `host-local` 1.9.1: our chain reads what the world writes. Each key is
//! spelled otherwise, or there twice, and each value is of each type. ADD and DEL must answer and
//! leave files as `host-local` does, but for the differences of
//! `docs/migrating-from-host-local.md`.

use std::collections::BTreeMap;
use std::fs::{self, read_dir};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::{KUBERNETES_PROGRAMS, Output, Sandbox, kubernetes_programs, needs};
use serde_json::{Map, Value, json};

use super::mutation::{Change, Mutation, mutations, written};

/// The plugins of both peers.
const PLUGINS: [&str; 2] = ["host-local", "ipam-delegated"];

#[test]
fn we_read_what_the_world_writes_as_host_local_does() {
    needs!(KUBERNETES_PROGRAMS);
    let all = mutations(&Peers::new().config(0), &["delegates", "stateDir"]);
    let all: Vec<Mutation> = all.into_iter().filter(stays_in_the_sandbox).collect();
    let differences: Vec<String> = std::thread::scope(|scope| {
        let half = all.len() / 2;
        let halves = [&all[..half], &all[half..]].map(|half| {
            scope.spawn(move || half.iter().filter_map(difference).collect::<Vec<_>>())
        });
        halves
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(all.len() > 500, "{}", all.len());
}

#[test]
fn the_prev_result_of_the_network_is_no_part_of_an_add() {
    needs!(KUBERNETES_PROGRAMS);
    let of_a_plugin_before = json!({
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/run/netns/c1"}],
        "ips": [{"interface": 1, "address": "2001:db8::5/128", "gateway": "2001:db8::1"}],
        "routes": [{"dst": "::/0"}],
        "dns": {"nameservers": ["2001:db8::53"]},
    });
    for (key, value) in [
        ("prevResult", of_a_plugin_before.clone()),
        ("PrevResult", of_a_plugin_before),
        ("prevResult", Value::Null),
        ("prevResult", json!({})),
    ] {
        let peers = Peers::new();
        for command in ["ADD", "DEL"] {
            let [theirs, ours] = [0, 1].map(|peer| {
                let mut config = peers.config(peer);
                config[key] = value.clone();
                let plugin = PLUGINS[peer];
                peers.sandbox.call(plugin, command, &config).run()
            });
            assert!(theirs.status.success() && ours.status.success(), "{ours:?}");
            if command == "ADD" {
                assert_eq!(as_written_in_go(&ours), as_written_in_go(&theirs), "{key}");
                assert!(!peers.files(1).is_empty());
            }
            assert_eq!(peers.files(1), peers.files(0), "{command} {key}");
        }
    }
}

/// False for values of `dataDir` that lead to the machine's folder, or to the working directory.
fn stays_in_the_sandbox(mutation: &Mutation) -> bool {
    let leads_out = [
        Change::Missing,
        Change::Value("null"),
        Change::Value("\"\""),
        Change::Value("\"x\""),
        Change::InTwoSpellings("DATADIR".to_owned()),
    ];
    mutation.place != "/ipam/dataDir" || !leads_out.contains(&mutation.change)
}

/// What differs by a mutation, unless it is intended.
fn difference(mutation: &Mutation) -> Option<String> {
    let peers = Peers::new();
    let [theirs, ours] = peers.both("ADD", Some(mutation));
    let said = |command, theirs: &Output, ours: &Output| {
        let files = [0, 1].map(|peer| peers.files(peer));
        Some(format!(
            "{command} {mutation:?}\nhost-local: {theirs:?}\n{:?}\nours: {ours:?}\n{:?}",
            files[0], files[1]
        ))
    };
    let are_alike = match [theirs.status.success(), ours.status.success()] {
        [true, true] => {
            as_written_in_go(&theirs) == as_written_in_go(&ours) && peers.files(0) == peers.files(1)
        }
        [true, false] => is_refused_by_ours_only(mutation),
        [false, true] => is_refused_by_theirs_only(mutation),
        [false, false] => true,
    };
    if !are_alike {
        return said("ADD", &theirs, &ours);
    }
    let peers = Peers::new();
    for output in peers.both("ADD", None) {
        output.result();
    }
    let [theirs, ours] = peers.both("DEL", Some(mutation));
    // By the record, all is released, whatever the configuration says today.
    let needs_name = mutation.place == "/name";
    let is_as_theirs = theirs.status.success() && peers.files(0) == peers.files(1);
    let is_released = peers.files(1).is_empty();
    let both_refuse = !theirs.status.success() && !ours.status.success() && needs_name;
    match both_refuse || ours.status.success() && (is_as_theirs || is_released) {
        true => None,
        false => said("DEL", &theirs, &ours),
    }
}

/// True for mutations that only our ADD refuses.
fn is_refused_by_ours_only(Mutation { place, change }: &Mutation) -> bool {
    let is_unusable_route = match place.as_str() {
        "/ipam/routes" => *change == Change::Value("[null]"),
        "/ipam/routes/0" => [Change::Value("null"), Change::Value("{}")].contains(change),
        "/ipam/routes/0/dst" => *change == Change::Missing,
        _ => false,
    };
    let is_old_version = *place == "/cniVersion";
    is_unusable_route || is_old_version || matches!(change, Change::InTwoSpellings(_))
}

/// True for mutations that only `host-local`'s ADD refuses.
fn is_refused_by_theirs_only(Mutation { place, change }: &Mutation) -> bool {
    // The main plugin reads the type.
    *place == "/ipam/type" || *place == "/ipam/subnet" && *change == Change::Value("null")
}

/// `host-local` and our chain, each with its own directory of reservations.
struct Peers {
    sandbox: Sandbox,
}

impl Peers {
    fn new() -> Self {
        let sandbox = Sandbox::default();
        let host_local = kubernetes_programs().unwrap().join("host-local");
        symlink(host_local, sandbox.plugins().join("host-local")).unwrap();
        fs::write(sandbox.root().join("resolv.conf"), "nameserver 10.0.0.53\n").unwrap();
        Self { sandbox }
    }

    /// The directory of a peer's reservations.
    fn data_dir(&self, peer: usize) -> PathBuf {
        self.sandbox.root().join(["theirs", "ours"][peer])
    }

    /// A configuration with each key that `host-local` reads.
    fn config(&self, peer: usize) -> Value {
        json!({
            "cniVersion": "1.0.0",
            "name": "testnet",
            "type": "bridge",
            "args": {"cni": {"ips": ["10.7.0.9"]}},
            "runtimeConfig": {"ipRanges": [[{"subnet": "10.8.0.0/28"}]], "ips": ["10.8.0.5"]},
            "ipam": {
                "type": "host-local",
                "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
                "dataDir": self.data_dir(peer),
                "stateDir": self.sandbox.state_dir(),
                "resolvConf": self.sandbox.root().join("resolv.conf"),
                "subnet": "10.6.0.0/28",
                "rangeStart": "10.6.0.4", "rangeEnd": "10.6.0.6", "gateway": "10.6.0.1",
                "ranges": [[{
                    "subnet": "10.7.0.0/24",
                    "rangeStart": "10.7.0.4", "rangeEnd": "10.7.0.20", "gateway": "10.7.0.2",
                }]],
                "routes": [{
                    "dst": "10.0.0.0/8", "gw": "10.7.0.1", "mtu": 1400, "advmss": 1300,
                    "priority": 5, "table": 100, "scope": 0,
                }],
            },
        })
    }

    /// The answers of both to a command: `host-local`'s, then ours.
    fn both(&self, command: &str, mutation: Option<&Mutation>) -> [Output; 2] {
        [0, 1].map(|peer| {
            let plugin = PLUGINS[peer];
            let call = self.sandbox.call(plugin, command, &Value::Null);
            call.stdin(written(&self.config(peer), mutation)).run()
        })
    }

    /// The reservations of a peer, by path, in all networks.
    fn files(&self, peer: usize) -> BTreeMap<PathBuf, String> {
        let entries = |folder: &Path| read_dir(folder).into_iter().flatten().flatten();
        let networks = entries(&self.data_dir(peer));
        let files = networks.flat_map(|network| entries(&network.path()).collect::<Vec<_>>());
        let reservations = files.filter(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name != "lock" && !name.starts_with("last_reserved_ip.")
        });
        let content = |path: PathBuf| {
            let content = fs::read_to_string(&path).unwrap();
            (
                path.strip_prefix(self.data_dir(peer)).unwrap().to_owned(),
                content,
            )
        };
        reservations.map(|file| content(file.path())).collect()
    }
}

/// A result as `host-local` writes it: fields in one spelling, without those that are empty.
fn as_written_in_go(output: &Output) -> Value {
    let mut result = output.result();
    let members = result.as_object_mut().unwrap();
    if let Some(Value::Array(routes)) = members.get_mut("routes") {
        for route in routes {
            *route = Value::Object(attributes(route));
        }
    }
    members.retain(|_, value| *value != json!([]) && *value != json!({}) && !value.is_null());
    result
}

fn attributes(route: &Value) -> Map<String, Value> {
    let attributes = route.as_object().unwrap().iter().map(|(key, value)| {
        let key = key.to_lowercase().replace('\u{17f}', "s");
        (key, value.clone())
    });
    // `table` and `scope` are pointers, which can be 0.
    let is_zero =
        |key: &str, value: &Value| *value == json!(0) && !["table", "scope"].contains(&key);
    let is_empty = |value: &Value| value.is_null() || *value == json!("");
    attributes
        .filter(|(key, value)| !is_zero(key, value) && !is_empty(value))
        .collect()
}
