//! Many chains run concurrently in one process. Each has the environment and the cancellation of
//! its own call, and leaves the files of its attachment.
//!
//! The process is this test's executable. Its own environment would be wrong for every chain.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use chain::{Chain, Plugins};
use cni::{Attachment, Cancellation, Environment, Error, LinkedPlugin, NetworkConfig};
use harness::waiting::{PATIENCE, wait_within};
use harness::{RANGES_CHAIN, Sandbox};
use ipam_da_host_local::IpamDaHostLocal;
use ipam_ds_ranges::IpamDsRanges;
use plugin::Linked;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const CHAINS: usize = 200;
const THREADS: usize = 16;

/// Variable with the sandbox's path for the second process.
const ROLE: &str = "ONE_PROCESS_SANDBOX";

/// The life of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Added,
    AddedAndDeleted,
    AddedTwice,
    FailedAtTheEnd,
    Cancelled,
    AddedByAnExecutable,
}

const LIVES: [Life; 6] = [
    Life::Added,
    Life::AddedAndDeleted,
    Life::AddedTwice,
    Life::FailedAtTheEnd,
    Life::Cancelled,
    Life::AddedByAnExecutable,
];

impl Life {
    fn of(number: usize) -> Self {
        LIVES[number % LIVES.len()]
    }

    fn commands(self) -> &'static [&'static str] {
        match self {
            Self::AddedAndDeleted => &["ADD", "DEL"],
            Self::AddedTwice => &["ADD", "ADD"],
            _ => &["ADD"],
        }
    }

    /// The codes of its commands' errors.
    fn codes(self) -> Vec<Value> {
        match self {
            Self::AddedAndDeleted => vec![Value::Null, Value::Null],
            Self::AddedTwice => vec![Value::Null, json!(110)],
            Self::FailedAtTheEnd => vec![json!(103)],
            Self::Cancelled => vec![json!(106)],
            Self::Added | Self::AddedByAnExecutable => vec![Value::Null],
        }
    }

    fn delegates(self) -> &'static [&'static str] {
        match self {
            Self::FailedAtTheEnd => &["ipam-ds-ranges", "ipam-da-host-local", "fails"],
            Self::Cancelled => &["ipam-ds-ranges", "ipam-da-host-local", "waits"],
            Self::AddedByAnExecutable => &["ipam-ds-ranges", "ipam-da-host-local", "passes"],
            _ => &RANGES_CHAIN,
        }
    }
}

fn sandbox() -> Sandbox {
    Sandbox::default()
        .with_script("fails", "[ $CNI_COMMAND = ADD ] || exit 0; exit 1")
        .with_script(
            "waits",
            "[ $CNI_COMMAND = ADD ] || exit 0; : > ${0%/*}/../begun-$CNI_CONTAINERID; sleep 1000",
        )
        // Passes its `prevResult` on.
        .with_script(
            "passes",
            "[ $CNI_COMMAND = ADD ] || exit 0; sed 's/.*\"prevResult\"://; s/}$//'",
        )
}

fn config(sandbox: &Sandbox, life: Life) -> Value {
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/16"}]]});
    sandbox.config("1.0.0", life.delegates(), &ipam)
}

/// The outcome of a command: success, or the error's code and message.
fn outcome(result: Result<(), Error>) -> Value {
    match result {
        Ok(()) => Value::Null,
        Err(error) => json!([error.code, error.msg]),
    }
}

/// Cancels a call once the waiting delegate has begun.
struct Cancel {
    is_cancelled: AtomicBool,
    reader: PipeReader,
    writer: Mutex<PipeWriter>,
}

impl Cancel {
    fn new() -> Self {
        let (reader, writer) = io::pipe().unwrap();
        Self {
            is_cancelled: AtomicBool::new(false),
            reader,
            writer: Mutex::new(writer),
        }
    }

    fn when_exists(&self, file: &Path) {
        wait_within(PATIENCE, || file.exists());
        self.is_cancelled.store(true, Ordering::SeqCst);
        self.writer.lock().unwrap().write_all(b"!").unwrap();
    }
}

impl Cancellation for Cancel {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.reader.as_fd())
    }
}

/// Runs a container's life in this process.
fn live(root: &Path, configs: &BTreeMap<usize, Value>, number: usize) -> Vec<Value> {
    let life = Life::of(number);
    let config = serde_json::to_vec(&configs[&(number % LIVES.len())]).unwrap();
    let config = NetworkConfig::parse(config).unwrap();
    let id = format!("c{number}");
    let environment = Environment::default()
        .with("PATH", std::env::var_os("PATH").unwrap())
        .with("CNI_CONTAINERID", id.as_str())
        .with("CNI_IFNAME", "eth0")
        .with("CNI_NETNS", "/run/netns/x")
        .with("CNI_PATH", root.join("plugins"));
    let attachment = Attachment {
        container_id: id.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    let linked: [&dyn LinkedPlugin; 2] = [&Linked(&IpamDsRanges), &Linked(&IpamDaHostLocal)];
    let run = |command: &str| {
        let plugins = Plugins::in_cni_path(&environment)?.and_linked(&linked);
        let cancel = Cancel::new();
        let chain = Chain::new(&config, &environment, plugins)?.cancelled_by(Some(&cancel));
        let begun = root.join(format!("begun-{id}"));
        thread::scope(|scope| {
            if life == Life::Cancelled {
                scope.spawn(|| cancel.when_exists(&begun));
            }
            match command {
                "ADD" => chain.add(&attachment).map(|_| ()),
                _ => chain.del(&attachment),
            }
        })
    };
    life.commands()
        .iter()
        .map(|command| outcome(run(command)))
        .collect()
}

/// The second process: runs all lives, prints their outcomes, and waits.
/// [`two_hundred_chains_in_one_process_have_each_its_own_environment_and_cancellation`] starts it.
/// It isn't a test of its own.
#[test]
#[ignore = "the second process of another test"]
fn the_process_of_the_chains_runs_all_lives() {
    let root = std::env::var_os(ROLE).expect("the other test sets it");
    let root = Path::new(&root);
    let configs = fs::read(root.join("configs")).unwrap();
    let configs: BTreeMap<usize, Value> = serde_json::from_slice(&configs).unwrap();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= CHAINS {
                        return;
                    }
                    let lived = live(root, &configs, number);
                    outcomes.lock().unwrap().insert(number, lived);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    fs::write(
        root.join("outcomes"),
        serde_json::to_vec(&outcomes).unwrap(),
    )
    .unwrap();
    println!("\nlived");
    // Waits until the test ends this process.
    io::stdin().lines().for_each(drop);
}

/// The containers that hold an address.
fn holders(sandbox: &Sandbox) -> Vec<String> {
    let reservations = sandbox.reservations("testnet");
    let mut holders: Vec<String> = reservations.into_iter().map(|(_, holder)| holder).collect();
    holders.sort();
    holders
}

#[test]
fn two_hundred_chains_in_one_process_have_each_its_own_environment_and_cancellation() {
    let together = sandbox();
    let configs: BTreeMap<usize, Value> = LIVES
        .iter()
        .map(|life| config(&together, *life))
        .enumerate()
        .collect();
    let path = together.root().join("configs");
    fs::write(path, serde_json::to_vec(&configs).unwrap()).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "one_process::the_process_of_the_chains_runs_all_lives",
            "--nocapture",
        ])
        .env(ROLE, together.root())
        .env("CNI_CONTAINERID", "WRONG")
        .env("CNI_COMMAND", "DEL")
        .env("CNI_ARGS", "IP=10.1.9.9")
        .env("CNI_PATH", "/nowhere")
        .env("IPAM_DELEGATED_DELEGATE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(process.stdout.take().unwrap());
    assert!(stdout.lines().any(|line| line.unwrap() == "lived"));

    let outcomes = fs::read(together.root().join("outcomes")).unwrap();
    let outcomes: BTreeMap<usize, Vec<Value>> = serde_json::from_slice(&outcomes).unwrap();
    assert_eq!(outcomes.len(), CHAINS);
    for (number, lived) in &outcomes {
        let codes: Vec<Value> = lived.iter().map(|outcome| outcome[0].clone()).collect();
        assert_eq!(codes, Life::of(*number).codes(), "{number}: {lived:?}");
    }
    let expected = (0..CHAINS).filter(|number| {
        matches!(
            Life::of(*number),
            Life::Added | Life::AddedTwice | Life::AddedByAnExecutable
        )
    });
    let mut expected: Vec<String> = expected
        .map(|number| format!("c{number}\r\neth0"))
        .collect();
    expected.sort();
    assert_eq!(holders(&together), expected);
    // That of a killed delegate stays for the DEL.
    let killed = (0..CHAINS).filter(|number| Life::of(*number) == Life::Cancelled);
    let recorded = expected.len() + killed.count();
    assert_eq!(together.records("testnet").len(), recorded);
    assert_eq!(together.processes_that_stay(), [""; 0]);

    // No signal handler is left.
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert_eq!(process.wait().unwrap().signal(), Some(15));
}
