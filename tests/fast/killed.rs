//! SIGKILL at a sample of points: before system calls of `ipam-delegated`, or of one of its
//! delegates, in an ADD and in a DEL, from the first read of stdin to the end; on a new node, and
//! on one where another container has an address. After the runtime's DEL, or after one GC, no
//! reservation, record or process is left, and the other container keeps its address and its
//! record.
//!
//! strace shows the points: before, between, inside and after the delegates, and inside the write
//! of the record.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use harness::call_points::{Point, points};
use harness::{Call, Flavour, Form, RANGES_CHAIN, Sandbox, needs, sample};
use serde_json::{Value, json};

/// The name of the other container.
const OTHER: &str = "other";

/// The command that is killed, and whether another container has an address.
const SITUATIONS: [(&str, bool); 3] = [("ADD", false), ("ADD", true), ("DEL", true)];

/// A chain, and the process in it that is killed.
struct Setting {
    container: String,
    sandbox: Sandbox,
    config: Value,
    /// The delegate that is killed; `None` for `ipam-delegated`.
    victim: Option<&'static str>,
}

impl Setting {
    fn new(delegates: &[&str], victim: Option<&'static str>, container: String) -> Self {
        // A delegate that is killed is one that is executed.
        let form = if victim.is_some() {
            Form::Separate
        } else {
            Form::OneFile
        };
        let sandbox = Sandbox::in_form(Flavour::Normal, form).with_reference("host-local");
        if let Some(victim) = victim {
            // The delegate runs through strace if the call asks for it.
            let real = sandbox.root().join("real");
            fs::create_dir(&real).unwrap();
            let executable = fs::canonicalize(sandbox.plugins().join(victim)).unwrap();
            symlink(executable, real.join(victim)).unwrap();
            fs::remove_file(sandbox.plugins().join(victim)).unwrap();
            sandbox.write_executable(
                victim,
                "#!/bin/sh\nreal=${0%/*}/../real/${0##*/}\n\
                 [ \"${TRACED-}\" = \"$CNI_COMMAND\" ] || exec \"$real\"\n\
                 exec strace -qq -o \"$TRACE\" -e \"$INJECTION\" \"$real\"",
            );
        }
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/16"}]]});
        let config = sandbox.config("1.1.0", delegates, &ipam);
        Self {
            container,
            sandbox,
            config,
            victim,
        }
    }

    fn call(&self, command: &str, container: &str) -> Call {
        let mut config = self.config.clone();
        config["cni.dev/valid-attachments"] = json!([{"containerID": OTHER, "ifname": "eth0"}]);
        self.sandbox
            .call("ipam-delegated", command, &config)
            .container(container)
    }

    /// The call, with strace on the victim.
    fn traced(&self, command: &str, container: &str, trace: &Path, expression: &str) -> Call {
        let call = self.call(command, container);
        match self.victim {
            Some(_) => call
                .env("TRACED", command)
                .env("TRACE", trace)
                .env("INJECTION", expression),
            None => call.traced(trace, &["-e", expression]),
        }
    }

    /// Restores the state on the node before the command.
    fn prepare(&self, command: &str, beside: bool) {
        let sandbox = &self.sandbox;
        for folder in [sandbox.data_dir(), sandbox.state_dir()] {
            let _ = fs::remove_dir_all(folder);
        }
        let other = beside.then_some(OTHER);
        let this = (command == "DEL").then_some(self.container.as_str());
        for container in other.into_iter().chain(this) {
            self.call("ADD", container).run().result();
        }
    }

    fn points(&self, command: &str, beside: bool) -> Vec<Point> {
        self.prepare(command, beside);
        let trace = self.sandbox.root().join("trace");
        let output = self
            .traced(command, &self.container, &trace, "trace=all")
            .run();
        output.ends(0);
        sample(points(&trace, "read(0,", |_| true))
    }

    /// Kills the victim at this point, calls `then` as a runtime would, and checks what is left.
    /// Returns whether the victim reached the point: the number of its waits for a delegate
    /// varies.
    fn kill_at(&self, point: &Point, (command, beside): (&str, bool), then: &str) -> bool {
        self.prepare(command, beside);
        let nowhere = Path::new("/dev/null");
        let killed = self
            .traced(command, &self.container, nowhere, &point.to_string())
            .run();
        // strace ends like the traced process. If that is a delegate, the orchestrator reports the
        // kill.
        let got_there = match self.victim {
            None => killed.status.signal() == Some(9),
            Some(_) => [&killed.stdout, &killed.stderr]
                .iter()
                .any(|said| said.contains("SIGKILL")),
        };
        assert!(
            got_there || killed.status.success(),
            "{command} at {point:?}: {killed:?}"
        );
        let output = self.call(then, &self.container).run();
        assert!(
            output.status.success(),
            "{then} after {command} killed at {point:?}: {output:?}"
        );
        let what = || format!("{command} killed at {point:?}, then {then}");
        let others = usize::from(beside);
        let (addresses, records) = (&["10.1.0.2"][..others], &["other:eth0.json"][..others]);
        assert_eq!(self.sandbox.reserved("testnet"), addresses, "{}", what());
        assert_eq!(self.sandbox.records("testnet"), records, "{}", what());
        assert_eq!(self.sandbox.processes_that_stay(), [""; 0], "{}", what());
        got_there
    }
}

/// Walks all points of the victim in the chain; returns their number.
fn walk(delegates: &'static [&'static str], victim: Option<&'static str>) -> usize {
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for then in ["DEL", "GC"] {
            let count = &count;
            scope.spawn(move || {
                let setting = Setting::new(delegates, victim, format!("before-{then}"));
                for situation in SITUATIONS {
                    let (command, beside) = situation;
                    let points = setting.points(command, beside);
                    assert!(!points.is_empty(), "{situation:?}");
                    let killed = points
                        .iter()
                        .filter(|point| setting.kill_at(point, situation, then))
                        .count();
                    // The number of waits for another process differs from run to run.
                    assert!(killed * 2 > points.len(), "{killed} of {points:?}");
                    count.fetch_add(killed, Ordering::Relaxed);
                }
            });
        }
    });
    let count = count.into_inner();
    println!(
        "{} in {delegates:?}: killed {count} times",
        victim.unwrap_or("ipam-delegated")
    );
    count
}

macro_rules! walks {
    ($($name:ident: $delegates:expr, $victim:expr;)+) => {
        $(
            #[test]
            fn $name() {
                needs!("trace", "host-local");
                assert!(walk($delegates, $victim) > 2);
            }
        )+
    };
}

walks! {
    nothing_is_left_of_a_killed_orchestrator: &RANGES_CHAIN, None;
    nothing_is_left_of_a_killed_orchestrator_whose_allocator_knows_no_gc: &["host-local"], None;
    nothing_is_left_of_a_killed_selector: &RANGES_CHAIN, Some("ipam-ds-ranges");
    nothing_is_left_of_a_killed_allocator: &RANGES_CHAIN, Some("ipam-da-host-local");
}
