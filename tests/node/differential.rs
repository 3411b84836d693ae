//! Differential test: Debian's `host-local` and our selector and allocator, with random
//! configurations and random sequences of ADD and DEL. After each step, their answers and their
//! files must be equal. Now and then they swap directories, so that each continues with the
//! other's files.
//!
//! `docs/migrating-from-host-local.md` lists the intended differences, and so does
//! [`intended`]. It also says how to run more cases, or a given seed again.

mod dialect;
mod generator;
mod intended;
mod mutation;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

use generator::{Step, configuration};
use intended::{gateways, intended};

/// Environment variables: the number of cases, and the seed of the first.
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
    // The cases have both results and refusals.
    assert!(total(|c| c.results) > total(|c| c.refusals) / 4);
    assert!(cases < 50 || total(|c| c.refusals) > 20);
}

#[derive(Default)]
struct Counts {
    results: u32,
    refusals: u32,
    intended: u32,
}

/// One configuration, and the calls with it.
struct Case {
    seed: u64,
    rng: Rng,
    sandbox: Sandbox,
    config: Value,
    /// The data directories: the first is host-local's, the second ours.
    data: [PathBuf; 2],
}

/// Files of a directory of reservations, without the lock.
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
        let config = configuration(&mut rng, &resolv_conf);
        Self {
            seed,
            rng,
            sandbox,
            config,
            data,
        }
    }

    fn run(mut self, counts: &mut Counts) {
        let gateways = gateways(&self.config);
        for n in 0..self.rng.usize(4..14) {
            if self.rng.u8(..8) == 0 {
                self.data.swap(0, 1);
            }
            let step = generator::step(&mut self.rng);
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
                    let outputs = [&theirs, &ours];
                    let files = [&their_files, &our_files];
                    let reason = intended(&step, &gateways, &before, outputs, files);
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

    /// Our selector, and after its success our allocator.
    fn ours(&self, step: &Step) -> Output {
        let selected = self.call("ipam-ds-ranges", step, &self.data[1], None);
        if !selected.status.success() {
            return selected;
        }
        // On DEL, a selector that can't read its ranges prints nothing.
        let pools = (!selected.stdout.is_empty()).then(|| selected.result());
        self.call("ipam-da-host-local", step, &self.data[1], pools)
    }

    /// Copies host-local's files into our directory, after an intended difference.
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

/// A result without the keys whose values mean the same as a missing key.
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
