//! Runs all callers while faults happen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, panicking, sleep};
use std::time::{Duration, Instant};

use harness::waiting::wait_or_say;
use harness::{Command, Observation, Operation, Outcome, Output};

use super::caller::Caller;
use super::node::ClusterNode;

/// Shortest duration of a fault: longer than a call.
pub(crate) const FAULT: Duration = Duration::from_secs(3);

/// A fault with its name. It calls the given function during the fault; callers must then succeed.
/// The fault has ended when it returns.
pub(crate) type Fault<C> = (&'static str, fn(&mut C, &dyn Fn()));

/// The calls of all callers.
pub(crate) struct Traffic {
    pub(crate) nodes: Vec<ClusterNode>,
    /// Number of callers on each node.
    pub(super) callers: usize,
    pub(crate) clock: Instant,
    pub(super) calls: Mutex<Vec<Operation>>,
    errors: Mutex<Vec<String>>,
    /// Observations during the calls.
    pub(super) observations: Mutex<Vec<Observation>>,
    /// The time when the traffic ended.
    over: OnceLock<Instant>,
    failed: AtomicBool,
}

/// Ends the traffic when it is dropped, also after a panic. Otherwise the callers would never stop.
struct AtEnd<'a>(&'a Traffic);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        let _ = self.0.over.set(Instant::now());
        self.0.failed.store(panicking(), Ordering::Relaxed);
    }
}

impl Traffic {
    pub(crate) fn new(nodes: Vec<ClusterNode>, callers: usize) -> Self {
        Self {
            nodes,
            callers,
            clock: Instant::now(),
            calls: Mutex::default(),
            errors: Mutex::default(),
            observations: Mutex::default(),
            over: OnceLock::new(),
            failed: AtomicBool::new(false),
        }
    }

    /// Runs all callers until `meanwhile` returns.
    pub(crate) fn run(&self, meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            let _at_end = AtEnd(self);
            for node in &self.nodes {
                for number in 0..self.callers {
                    scope.spawn(move || Caller::new(self, node, number).call_until_over());
                }
            }
            self.wait_for_adds(Duration::ZERO);
            meanwhile();
        });
    }

    /// Causes these faults one after the other. After each, callers of all nodes must succeed.
    pub(crate) fn meets<C>(
        &self,
        cluster: &mut C,
        faults: &[Fault<C>],
        observe: impl Fn(&C) -> Observation,
    ) {
        for (name, fault) in faults {
            let from = self.clock.elapsed();
            fault(cluster, &|| {
                sleep(FAULT);
                self.wait_for_add(from, "");
            });
            let adds = self.added_since(from).len();
            println!("{from:>8.1?}: {adds:>4} ADDs while {name}");
            let healed = self.clock.elapsed();
            self.observations.lock().unwrap().push(observe(cluster));
            self.wait_for_adds(healed);
        }
    }

    /// GC of a node as a runtime calls it: living attachments are valid, and no other call runs at
    /// the same time. True if it succeeded.
    pub(crate) fn collect(&self, node: &ClusterNode) -> bool {
        let _nobody = node.between_calls();
        let output = node.collect(&node.containers_of(&self.living()));
        self.succeeded("GC", &output)
    }

    /// [`Self::collect`] on all nodes.
    pub(super) fn collect_all(&self) {
        for node in &self.nodes {
            self.collect(node);
        }
    }

    /// Waits until, on each node, an ADD that began after this time has succeeded.
    pub(crate) fn wait_for_adds(&self, from: Duration) {
        for node in &self.nodes {
            self.wait_for_add(from, &node.name);
        }
    }

    /// Waits until an ADD that began after this time has succeeded, on a node whose name starts with
    /// this text.
    fn wait_for_add(&self, from: Duration, on: &str) {
        let is_added = || {
            let added = self.added_since(from);
            added.iter().any(|added| added.starts_with(on))
        };
        wait_or_say(is_added, || {
            format!("no ADD since {from:?} {on}: {:#?}", self.last_errors())
        });
    }

    /// The attachments of successful ADDs that began after this time.
    pub(crate) fn added_since(&self, from: Duration) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let added = calls.iter().filter(|call| {
            matches!(call.command, Command::Add(Outcome::Succeeded(_))) && call.started >= from
        });
        added.map(|call| call.attachment.clone()).collect()
    }

    /// The time when the traffic ended, if it has ended.
    pub(super) fn over(&self) -> Option<Instant> {
        self.over.get().copied()
    }

    /// True if the test has failed, so that callers can stop.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Adds a call that has just ended to the history.
    pub(super) fn push(
        &self,
        node: &ClusterNode,
        container: &str,
        started: Duration,
        command: Command,
    ) {
        let ended = self.clock.elapsed();
        self.calls.lock().unwrap().push(Operation {
            attachment: node.attachment(container),
            started,
            ended,
            command,
        });
    }

    /// True if a call succeeded; keeps its error otherwise.
    pub(super) fn succeeded(&self, command: &str, output: &Output) -> bool {
        let succeeded = output.status.success();
        if !succeeded {
            let line = format!("{:.3?} {command}: {}", self.clock.elapsed(), output.error());
            self.errors.lock().unwrap().push(line);
        }
        succeeded
    }

    /// The latest errors of calls.
    pub(crate) fn last_errors(&self) -> Vec<String> {
        let errors = self.errors.lock().unwrap();
        errors.iter().rev().take(5).cloned().collect()
    }
}
