//! Figures of a comparison of chains: medians, ratios to the peer, goals.

use serde_json::{Value, json};

use super::contender::{Contender, Kind};
use super::{calls, throughput};

/// All measured figures.
pub(crate) struct Figures {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rounds: usize,
    /// Number of ADDs and DELs before the measurement.
    pub(crate) used: usize,
    pub(crate) calls: Vec<calls::Measured>,
    pub(crate) throughput: Vec<throughput::Measured>,
    /// For each contender, in KiB.
    pub(crate) peak: Vec<u64>,
    /// For each contender, in bytes.
    pub(crate) size: Vec<u64>,
}

impl Figures {
    /// The median of a call, in milliseconds.
    pub(crate) fn median(&self, kind: Kind, command: &str, reserved: u32) -> f64 {
        self.time(kind, command, reserved, 50)
    }

    /// The time that this percentage of the calls doesn't exceed, in milliseconds.
    pub(crate) fn time(&self, kind: Kind, command: &str, reserved: u32, percent: usize) -> f64 {
        let is_it = |it: &&calls::Measured| {
            self.contenders[it.of].kind == kind && it.command == command && it.reserved == reserved
        };
        let measured = self.calls.iter().find(is_it);
        measured.map_or(f64::NAN, |measured| measured.times.percentile(percent))
    }

    /// ADDs per second.
    pub(crate) fn rate(&self, kind: Kind, callers: usize) -> f64 {
        self.throughput
            .iter()
            .find(|measured| {
                self.contenders[measured.of].kind == kind && measured.callers == callers
            })
            .map_or(f64::NAN, |measured| measured.rate)
    }

    fn of(&self, kind: Kind, all: &[u64]) -> u64 {
        let at = self
            .contenders
            .iter()
            .position(|contender| contender.kind == kind);
        at.map_or(0, |at| all[at])
    }

    /// The goals, each with its measured value.
    pub(crate) fn goals(&self) -> Vec<Goal> {
        let ratio = |kind, reserved| {
            self.median(kind, "ADD", reserved) / self.median(Kind::Peer, "ADD", reserved)
        };
        let at_most = |what: &str, goal: f64, value: f64| Goal {
            what: what.to_owned(),
            goal: format!("≤ {goal}"),
            value: format!("{value:.2}"),
            met: value <= goal,
        };
        let one_file = Kind::OneFile;
        let rate = self.rate(one_file, 16) / self.rate(Kind::Peer, 16);
        let peak = self.of(one_file, &self.peak) as f64 / 1024.0;
        let [empty, with_250] = super::calls::RESERVED.map(|reserved| ratio(one_file, reserved));
        vec![
            at_most("ADD, one file, none reserved, × peer", 0.3, empty),
            at_most("ADD, one file, 250 reserved, × peer", 0.15, with_250),
            Goal {
                goal: "≥ 3".to_owned(),
                met: rate >= 3.0,
                ..at_most("ADDs a second by 16 callers, one file, × peer", 3.0, rate)
            },
            Goal {
                goal: "< 4".to_owned(),
                met: peak < 4.0,
                ..at_most("peak memory of an ADD, one file, in MiB", 4.0, peak)
            },
        ]
    }

    /// All figures, for programs.
    pub(crate) fn to_json(&self) -> Value {
        let name = |of: usize| self.contenders[of].kind.key();
        let calls = self.calls.iter().map(|measured| {
            let peer = self.median(Kind::Peer, measured.command, measured.reserved);
            json!({
                "contender": name(measured.of),
                "command": measured.command,
                "reserved": measured.reserved,
                "median_ms": measured.times.median(),
                "p99_ms": measured.times.percentile(99),
                "times_peer": measured.times.median() / peer,
            })
        });
        let throughput = self.throughput.iter().map(|measured| {
            json!({
                "contender": name(measured.of),
                "callers": measured.callers,
                "adds_per_second": measured.rate,
                "times_peer": measured.rate / self.rate(Kind::Peer, measured.callers),
            })
        });
        let contenders = self.contenders.iter().enumerate().map(|(of, measured)| {
            json!({
                "key": measured.kind.key(),
                "name": measured.name,
                "peak_memory_kib": self.peak[of],
                "size_bytes": self.size[of],
            })
        });
        let goals = self
            .goals()
            .into_iter()
            .map(|goal| json!({"what": goal.what, "goal": goal.goal, "value": goal.value, "met": goal.met}));
        json!({
            "rounds": self.rounds,
            "used": self.used,
            "containers_of_throughput": throughput::CONTAINERS,
            "contenders": contenders.collect::<Vec<_>>(),
            "calls": calls.collect::<Vec<_>>(),
            "throughput": throughput.collect::<Vec<_>>(),
            "goals": goals.collect::<Vec<_>>(),
        })
    }
}

/// A goal with its measured value.
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) goal: String,
    pub(crate) value: String,
    pub(crate) met: bool,
}
