//! A caller on a node: adds and deletes containers again and again, and writes the history.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use harness::{Address, Command, Outcome, Output};
use rustix::process::nice;

use super::node::{ClusterNode, POOLS};
use super::run::Traffic;
use harness::waiting::PATIENCE;

/// Longest time for which a container is kept while others come and go, in milliseconds.
const LONGEST_KEPT: u64 = 12_000;

pub(super) struct Caller<'a> {
    traffic: &'a Traffic,
    node: &'a ClusterNode,
    number: usize,
    pools: &'static [&'static str],
    random: Rng,
    /// A container that is kept, and the time of its deletion.
    kept: Option<(String, Instant)>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(traffic: &'a Traffic, node: &'a ClusterNode, number: usize) -> Self {
        Self {
            traffic,
            node,
            number,
            pools: &POOLS[..1 + number % 2],
            random: Rng::with_seed(number as u64),
            kept: None,
        }
    }

    /// Adds and deletes containers until the traffic ends, and then adds one that stays.
    pub(super) fn call_until_over(mut self) {
        // The engine has priority over its clients. Otherwise its members answer each other too
        // late, and elect new leaders.
        let _ = nice(10);
        for number in 0.. {
            let over = self.traffic.over();
            self.delete_kept(over.is_some());
            let container = format!("c{}-{number}", self.number);
            let added = match self.random.u8(..60) {
                0 if over.is_none() => {
                    let killed_after = Duration::from_millis(self.random.u64(..100));
                    self.call("ADD", &container, Some(killed_after))
                }
                1 => self.traffic.collect(self.node) && self.call("ADD", &container, None),
                _ => self.call("ADD", &container, None),
            };
            let is_late = over.is_some_and(|over| over.elapsed() > PATIENCE);
            if over.is_some() && added || is_late || self.traffic.has_failed() {
                return;
            }
            if over.is_some() {
                // The pool may be full of what others have forgotten, whose callers have ended.
                self.traffic.collect_all();
            }
            match self.random.u8(..100) {
                // The runtime has forgotten it and calls no DEL.
                0 if added => {
                    let now = self.traffic.clock.elapsed();
                    let lost = Command::Del(Outcome::Open);
                    self.traffic.push(self.node, &container, now, lost);
                }
                1..20 if added && self.kept.is_none() => {
                    let time = Duration::from_millis(self.random.u64(..LONGEST_KEPT));
                    self.kept = Some((container, Instant::now() + time));
                }
                _ => {
                    if added {
                        sleep(Duration::from_millis(self.random.u64(..200)));
                    }
                    self.delete(&container);
                }
            }
        }
    }

    /// Deletes the container that is kept, when its time is up or the traffic has ended.
    fn delete_kept(&mut self, is_over: bool) {
        let is_due = |(_, until): &mut (_, Instant)| is_over || *until < Instant::now();
        if let Some((container, _)) = self.kept.take_if(is_due) {
            self.delete(&container);
        }
    }

    /// Calls DEL until it succeeds. Gives up after some failures, as a runtime may.
    fn delete(&mut self, container: &str) {
        while !self.traffic.has_failed() {
            if self.call("DEL", container, None) || self.random.u8(..8) == 0 {
                return;
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Makes a call and writes its outcome to the history. True if it succeeded. The process may be
    /// killed after a time.
    fn call(&self, command: &str, container: &str, killed_after: Option<Duration>) -> bool {
        let _calling = self.node.calling();
        let started = self.traffic.clock.elapsed();
        let call = self.node.call(command, container, self.pools);
        let output = match killed_after {
            Some(time) => {
                call.run_and_kill(time);
                None
            }
            None => Some(call.run()).filter(|output| self.traffic.succeeded(command, output)),
        };
        let outcome = match command {
            "ADD" => Command::Add(match &output {
                Some(output) => Outcome::Succeeded(self.addresses(output)),
                None => Outcome::Open,
            }),
            _ => Command::Del(match &output {
                Some(_) => Outcome::Succeeded(()),
                None => Outcome::Open,
            }),
        };
        self.traffic.push(self.node, container, started, outcome);
        output.is_some()
    }

    /// The addresses that an ADD has given, one from each pool.
    fn addresses(&self, output: &Output) -> Vec<Address> {
        let addresses = self.pools.iter().zip(output.ips());
        let addresses = addresses.map(|(pool, ip)| Address {
            pool: (*pool).to_owned(),
            ip: ip.parse().unwrap(),
        });
        addresses.collect()
    }
}
