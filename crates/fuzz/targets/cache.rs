//! Fuzz target of the allocator's cache: its content never changes an answer.

use std::fs;
use std::path::Path;

use bolero::{TypeGenerator, check};
use fuzz::{Edit, Outcome, Sandbox, TEST_TIME, Variables, call, watched};
use serde_json::json;

/// A directory with a cache that has been damaged, and calls.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    /// Number of reservations that other programs have written, and their distance.
    others: u8,
    apart: u8,
    /// Number of attachments that were added after them, with the cache.
    added: u8,
    /// Files that another program, which knows of no cache, writes or removes.
    #[generator(bolero::produce::<Vec<(u8, bool)>>().with().len(0usize..=2))]
    behind_its_back: Vec<(u8, bool)>,
    /// The damage. Without any, the cache is only out of date, or right.
    #[generator(Edit::several(3))]
    edits: Vec<Edit>,
    /// The page of the file that is damaged.
    page: u8,
    #[generator(bolero::produce::<Vec<Step>>().with().len(1usize..=4))]
    steps: Vec<Step>,
}

/// A call for one of a few containers.
#[derive(Clone, Debug, TypeGenerator)]
struct Step {
    command: u8,
    container: u8,
}

impl Step {
    fn variables(&self, sandbox: &Sandbox) -> Variables {
        let commands = ["ADD", "ADD", "DEL", "CHECK", "STATUS", "GC"];
        let command = commands[usize::from(self.command) % commands.len()];
        Variables::new(command, &sandbox.plugins()).with("CNI_CONTAINERID", self.container())
    }

    fn container(&self) -> String {
        format!("c{}", self.container % 6)
    }
}

/// A sandbox in which the directory is as the input says.
fn directory(input: &Input) -> Sandbox {
    let sandbox = Sandbox::new();
    let path = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&path).unwrap();
    for i in 0..u32::from(input.others % 32) {
        let file = path.join(address(2 + i * (1 + u32::from(input.apart))));
        fs::write(file, format!("other{i}\r\neth0")).unwrap();
    }
    for container in 0..input.added % 5 {
        let command = 0;
        ask(&Step { command, container }, &sandbox);
    }
    for (at, removed) in &input.behind_its_back {
        let file = path.join(address(2 + u32::from(*at)));
        if *removed {
            let _ = fs::remove_file(file);
        } else {
            fs::write(file, "late\r\neth0").unwrap();
        }
    }
    sandbox
}

fn address(n: u32) -> String {
    std::net::Ipv4Addr::from(0x0a00_0000 + n).to_string()
}

fn ask(step: &Step, sandbox: &Sandbox) -> Outcome {
    let config = json!({"cniVersion": "1.1.0", "name": "testnet", "ipam": {},
        "cni.dev/valid-attachments": [{"containerID": step.container(), "ifname": "eth0"}],
        "prevResult": {"pools": [{"subnet": "10.0.0.0/16"}]}});
    let config = sandbox.confine(serde_json::to_vec(&config).unwrap());
    let plugin = &ipam_da_host_local::IpamDaHostLocal;
    call(plugin, &step.variables(sandbox), &config)
}

/// Damages the one file that is there.
fn damage(folder: &Path, input: &Input) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let start = usize::from(input.page) * 4096 % bytes.len().max(1);
        let mut rest = bytes.split_off(start);
        for edit in &input.edits {
            edit.apply(&mut rest);
        }
        bytes.append(&mut rest);
        fs::write(path, bytes).unwrap();
    }
}

/// Content of a folder, by paths relative to it.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = Sandbox::snapshot(folder).into_iter();
    let name = |path: &Path| path.strip_prefix(folder).unwrap().display().to_string();
    files
        .map(|(path, content)| (name(&path), content))
        .collect()
}

#[test]
fn no_answer_depends_on_what_is_in_it() {
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|input: &Input| {
            let (with, without) = (directory(input), directory(input));
            damage(&with.cache_dir(), input);
            for step in &input.steps {
                let _ = fs::remove_dir_all(without.cache_dir());
                let answer = watched(input, || ask(step, &with));
                assert_eq!(answer, ask(step, &without), "{step:?}");
            }
            assert_eq!(contents(&with.data_dir()), contents(&without.data_dir()));
            with.assert_nothing_got_out();
        });
}
