//! Debian's `host-local` and our selector and allocator, side by side on random
//! configurations and random sequences of ADD and DEL: after each step, both have
//! answered alike and have left the same files. Now and then they change places,
//! so that each goes on in the other's directory.
//!
//! What is meant to be different is listed in `docs/migrating-from-host-local.md`,
//! and here, in [`intended`].
//!
//! `cargo xtask differential` runs more cases, and a given seed again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use harness::{Output, Sandbox, needs};
use serde_json::{Map, Value, json};

/// How many cases there are, and from which seed they come.
const CASES: &str = "IPAM_DELEGATED_CASES";
const SEED: &str = "IPAM_DELEGATED_SEED";

#[test]
fn we_answer_as_host_local_does_and_leave_the_same_files() {
    needs!("host-local");
    let number = |variable, default| {
        std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
    };
    let (cases, seed) = (number(CASES, 100), number(SEED, 1));
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            scope.spawn(move || {
                let mut counts = Counts::default();
                for case in (seed..seed + cases).filter(|case| case % 2 == half) {
                    Case::new(case).run(&mut counts);
                }
                counts
            })
        });
        halves
            .into_iter()
            .map(|half| half.join().unwrap())
            .collect()
    });
    let total = |what: fn(&Counts) -> u32| counts.iter().map(what).sum::<u32>();
    println!(
        "{cases} cases from seed {seed}: {} answers alike, {} refusals alike, {} differences as intended",
        total(|c| c.results),
        total(|c| c.refusals),
        total(|c| c.intended),
    );
    // The cases are about something.
    assert!(total(|c| c.results) > total(|c| c.refusals) / 4);
    assert!(cases < 50 || total(|c| c.refusals) > 20);
}

#[derive(Default)]
struct Counts {
    results: u32,
    refusals: u32,
    intended: u32,
}

/// One configuration, and what is done with it.
struct Case {
    seed: u64,
    rng: Rng,
    sandbox: Sandbox,
    config: Value,
    /// The data directories: the first is host-local's, the second ours.
    data: [PathBuf; 2],
}

/// What a step asks for.
#[derive(Debug)]
struct Step {
    command: &'static str,
    container: String,
    ifname: String,
    args: Option<String>,
    keys: Map<String, Value>,
}

/// The files of a directory of reservations, but for the lock.
type Files = BTreeMap<String, String>;

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let sandbox = Sandbox::default().with_reference("host-local");
        let data = ["theirs", "ours"].map(|name| sandbox.root().join(name));
        let resolv_conf = sandbox.root().join("resolv.conf");
        fs::write(
            &resolv_conf,
            "nameserver 10.0.0.53\nsearch a.example b.example\noptions rotate\n",
        )
        .unwrap();
        let config = configuration(&mut rng, &sandbox, &resolv_conf);
        Self {
            seed,
            rng,
            sandbox,
            config,
            data,
        }
    }

    fn run(mut self, counts: &mut Counts) {
        for n in 0..self.rng.usize(4..14) {
            if self.rng.u8(..8) == 0 {
                self.data.swap(0, 1);
            }
            let step = self.step();
            let before = files(&self.data[0]);
            let theirs = self.host_local(&step);
            let ours = self.ours(&step);
            let (their_files, our_files) = (files(&self.data[0]), files(&self.data[1]));
            let alike = theirs.status.success() == ours.status.success()
                && (!ours.status.success() || answer(&theirs) == answer(&ours))
                && their_files == our_files;
            match (alike, ours.status.success()) {
                (true, true) => counts.results += 1,
                (true, false) => counts.refusals += 1,
                (false, _) => {
                    let reason =
                        intended(&step, &before, [&theirs, &ours], [&their_files, &our_files]);
                    assert!(
                        reason.is_some(),
                        "case {} step {n}: {step:#?}\nconfiguration: {:#}\nbefore: {before:#?}\n\
                         host-local: {theirs:#?}\nfiles: {their_files:#?}\n\
                         ours: {ours:#?}\nfiles: {our_files:#?}",
                        self.seed,
                        self.config
                    );
                    counts.intended += 1;
                    self.make_alike();
                }
            }
        }
    }

    fn step(&mut self) -> Step {
        let rng = &mut self.rng;
        let mut step = Step {
            command: if rng.u8(..10) < 7 { "ADD" } else { "DEL" },
            container: format!("c{}", rng.u8(..5)),
            ifname: format!("eth{}", rng.u8(..2)),
            args: None,
            keys: Map::new(),
        };
        match rng.u8(..10) {
            0 => step.args = Some(format!("IP={}", some_address(rng))),
            1 => {
                step.args = Some(format!(
                    "IgnoreUnknown=1;K8S_POD_NAME=p;IP={}/24",
                    some_address(rng)
                ));
            }
            2 => {
                let ips: Vec<String> = (0..rng.usize(1..3)).map(|_| some_address(rng)).collect();
                step.keys
                    .insert("args".to_owned(), json!({"cni": {"ips": ips}}));
            }
            3 => {
                let ips: Vec<String> = (0..rng.usize(1..3)).map(|_| some_address(rng)).collect();
                step.keys.insert("ips".to_owned(), json!(ips));
            }
            4 if rng.u8(..4) == 0 => {
                let args = [
                    "IP",
                    "COLOUR=blue",
                    "IP=nonsense",
                    "IP=",
                    "A=1;IgnoreUnknown=true",
                ];
                step.args = Some(args[rng.usize(..args.len())].to_owned());
            }
            _ => {}
        }
        step
    }

    fn call(&self, plugin: &str, step: &Step, data: &Path, prev_result: Option<Value>) -> Output {
        let mut config = self.config.clone();
        config["ipam"]["dataDir"] = json!(data);
        for (key, value) in &step.keys {
            match key.as_str() {
                "ips" => config["runtimeConfig"]["ips"] = value.clone(),
                _ => config[key] = value.clone(),
            }
        }
        if let Some(prev_result) = prev_result {
            config["prevResult"] = prev_result;
        }
        let call = self
            .sandbox
            .call(plugin, step.command, &config)
            .container(&step.container)
            .env("CNI_IFNAME", &step.ifname);
        match &step.args {
            Some(args) => call.env("CNI_ARGS", args).run(),
            None => call.run(),
        }
    }

    fn host_local(&self, step: &Step) -> Output {
        self.call("host-local", step, &self.data[0], None)
    }

    /// The selector, and, if it has an answer, the allocator behind it.
    fn ours(&self, step: &Step) -> Output {
        let selected = self.call("ipam-ds-ranges", step, &self.data[1], None);
        if !selected.status.success() {
            return selected;
        }
        self.call(
            "ipam-da-host-local",
            step,
            &self.data[1],
            Some(selected.result()),
        )
    }

    /// After an intended difference: ours goes on from what host-local has.
    fn make_alike(&self) {
        let [theirs, ours] = self.data.each_ref().map(|data| data.join("testnet"));
        let _ = fs::remove_dir_all(&ours);
        for (name, content) in files(&self.data[0]) {
            fs::create_dir_all(&ours).unwrap();
            fs::write(ours.join(&name), content).unwrap();
            assert!(theirs.join(name).exists());
        }
    }
}

/// Why the two may differ here, if they may: the rows of the table in the
/// documentation that random steps come upon.
fn intended(
    step: &Step,
    before: &Files,
    [theirs, ours]: [&Output; 2],
    [their_files, our_files]: [&Files; 2],
) -> Option<&'static str> {
    let mine = format!("{}\r\n{}", step.container, step.ifname);
    let held_before = before.values().any(|content| *content == mine);
    let asks = step.args.is_some() || !step.keys.is_empty();
    let only_rotation_differs = {
        let reservations = |files: &Files| {
            let mut files = files.clone();
            files.retain(|name, _| !name.starts_with("last_reserved_ip."));
            files
        };
        reservations(their_files) == reservations(our_files)
    };
    if theirs.status.success() && !ours.status.success() {
        return (held_before && asks && ours.code() == 110)
            .then_some("a second ADD of an attachment with another address requested");
    }
    if theirs.status.success() || ours.status.success() {
        return (step.command == "DEL" && theirs.stdout.contains("nowhere"))
            .then_some("DEL with a wrong route");
    }
    if only_rotation_differs && asks {
        return Some("requests that no range serves, or two of one range set");
    }
    // They have released what was there before; we have not.
    let released = |(name, content): (&String, &String)| {
        their_files.contains_key(name) || *content == mine || name.starts_with("last_reserved_ip.")
    };
    (held_before && before.iter().all(released) && unchanged(before, our_files))
        .then_some("ADD fails at a later range set")
}

/// Whether the same is reserved as before.
fn unchanged(before: &Files, after: &Files) -> bool {
    let reserved = |files: &Files| {
        let names = files
            .keys()
            .filter(|name| !name.starts_with("last_reserved_ip."));
        names.cloned().collect::<Vec<_>>()
    };
    reserved(before) == reserved(after)
}

/// A result without what means the same as its absence.
fn answer(output: &Output) -> Option<Value> {
    if output.stdout.is_empty() {
        return None;
    }
    let mut result = output.result();
    let keys = result.as_object_mut().unwrap();
    for key in ["routes", "dns"] {
        if keys
            .get(key)
            .is_some_and(|v| *v == json!([]) || *v == json!({}) || v.is_null())
        {
            keys.remove(key);
        }
    }
    Some(result)
}

fn files(data: &Path) -> Files {
    let Ok(entries) = fs::read_dir(data.join("testnet")) else {
        return Files::new();
    };
    entries
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .filter(|(name, _)| name != "lock")
        .collect()
}

fn configuration(rng: &mut Rng, sandbox: &Sandbox, resolv_conf: &Path) -> Value {
    let versions = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];
    let mut config = json!({
        "cniVersion": versions[rng.usize(..versions.len())],
        "name": "testnet",
        "ipam": {"type": "host-local", "cacheDir": sandbox.cache_dir()}
    });
    let ipam = &mut config["ipam"];
    let sets: Vec<Value> = (0..rng.u32(1..4))
        .map(|area| range_set(rng, area))
        .collect();
    match rng.u8(..6) {
        // One range at the top of `ipam`, before the others.
        0 => {
            let first = sets[0][0].as_object().cloned().unwrap_or_default();
            ipam.as_object_mut().unwrap().extend(first);
            ipam["ranges"] = json!(sets[1..]);
        }
        1 => {
            ipam["ranges"] = json!(sets[1..]);
            config["runtimeConfig"] = json!({ "ipRanges": [sets[0]] });
        }
        _ => ipam["ranges"] = json!(sets),
    }
    let ipam = &mut config["ipam"];
    if rng.u8(..3) == 0 {
        ipam["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.7.0.1"}]);
    }
    if rng.u8(..40) == 0 {
        ipam["routes"] = json!([{"dst": "nowhere"}]);
    }
    match rng.u8(..12) {
        0..3 => ipam["resolvConf"] = json!(resolv_conf),
        3 if rng.bool() => ipam["resolvConf"] = json!("/nowhere/resolv.conf"),
        _ => {}
    }
    config
}

/// A set of ranges from this third of all addresses, so that most don't overlap.
fn range_set(rng: &mut Rng, area: u32) -> Value {
    let v6 = rng.u8(..3) == 0;
    let mut ranges: Vec<Value> = (0..rng.usize(1..3)).map(|_| range(rng, v6, area)).collect();
    match rng.u8(..100) {
        0 => ranges.clear(),
        1 => ranges.push(range(rng, !v6, area)),
        2 => ranges.push(range(rng, v6, (area + 1) % 3)),
        _ => {}
    }
    json!(ranges)
}

/// A small subnet, so that pools run full.
fn range(rng: &mut Rng, v6: bool, area: u32) -> Value {
    // With one bit, it is too small.
    let bits = if rng.u8(..100) == 0 { 1 } else { rng.u32(2..6) };
    let longest = if v6 { 128 } else { 32 };
    let size = 1u32 << bits;
    let base = rng.u32(..256 / size) * size + 256 * area;
    let address = |offset: u32| {
        if v6 {
            format!("fd00:7::{:x}", base + offset)
        } else {
            format!("10.7.{}.{}", (base + offset) / 256, (base + offset) % 256)
        }
    };
    let host_bits = u32::from(rng.u8(..100) == 0);
    let network = address(host_bits);
    let mut range = json!({ "subnet": format!("{network}/{}", longest - bits) });
    // Now and then outside.
    let inside = |rng: &mut Rng| {
        let outside = if rng.u8(..50) == 0 { size } else { 0 };
        rng.u32(..size) + outside
    };
    let start = inside(rng);
    // Mostly not before the start.
    let end = inside(rng).max(if rng.u8(..20) == 0 { 0 } else { start });
    if rng.u8(..3) == 0 && start != size - 1 {
        range["rangeStart"] = json!(address(start));
    }
    if rng.u8(..3) == 0 {
        range["rangeEnd"] = json!(address(end));
    }
    match rng.u8(..6) {
        0 => range["gateway"] = json!(address(inside(rng))),
        1 => range["gateway"] = json!(""),
        _ => {}
    }
    if rng.u8(..60) == 0 {
        range["rangeStart"] = json!("nonsense");
    }
    range
}

/// An address that may be in a range.
fn some_address(rng: &mut Rng) -> String {
    if rng.u8(..4) == 0 {
        format!("fd00:7::{:x}", rng.u32(..768))
    } else {
        format!("10.7.{}.{}", rng.u8(..3), rng.u8(..))
    }
}
