//! Tests the checker with correct and wrong histories.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn address(last: u8) -> Address {
    Address {
        pool: "blue".to_owned(),
        ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)),
    }
}

fn call(attachment: &str, (started, ended): (u64, u64), command: Command) -> Operation {
    Operation {
        attachment: attachment.to_owned(),
        started: at(started),
        ended: at(ended),
        command,
    }
}

fn add(attachment: &str, times: (u64, u64), last: u8) -> Operation {
    let given = Outcome::Succeeded(vec![address(last)]);
    call(attachment, times, Command::Add(given))
}

fn failed_add(attachment: &str, times: (u64, u64)) -> Operation {
    call(attachment, times, Command::Add(Outcome::Open))
}

fn del(attachment: &str, times: (u64, u64)) -> Operation {
    let done = Command::Del(Outcome::Succeeded(()));
    call(attachment, times, done)
}

fn failed_del(attachment: &str, times: (u64, u64)) -> Operation {
    call(attachment, times, Command::Del(Outcome::Open))
}

/// The keys at one time, with the same index.
fn keys((started, ended): (u64, u64), keys: &[(u8, &str)]) -> Observation {
    let addresses: Vec<_> = keys
        .iter()
        .map(|(last, holder)| (address(*last), (*holder).to_owned()))
        .collect();
    Observation {
        started: at(started),
        ended: at(ended),
        index: Some(addresses.clone()),
        addresses,
        sent_once: true,
        collected: false,
    }
}

/// The keys after GC.
fn after_gc(held: &[(u8, &str)]) -> Observation {
    Observation {
        collected: true,
        ..keys((1_000, 1_001), held)
    }
}

/// The kinds of the violations, with their attachments.
fn found(calls: Vec<Operation>, observations: Vec<Observation>) -> Vec<String> {
    let history = History::new(calls, observations).unwrap();
    let names = history
        .violations()
        .into_iter()
        .map(|violation| match violation {
            Violation::HeldTwice(one, other) => {
                format!("twice {} {}", one.attachment, other.attachment)
            }
            Violation::AddedTwice(attachment) => format!("added twice {attachment}"),
            Violation::Missing(hold, _) => format!("missing {}", hold.attachment),
            Violation::Foreign(hold, other, _) => format!("foreign {} {other}", hold.attachment),
            Violation::NotReleased(hold, _) => format!("not released {}", hold.attachment),
            Violation::LeftBehind(_, holder) => format!("left {holder}"),
            Violation::NotIndexed(_, holder) => format!("not indexed {holder}"),
            Violation::OnlyIndexed(_, holder) => format!("only indexed {holder}"),
        });
    names.collect()
}

/// A history that a correct allocator can produce.
fn correct() -> (Vec<Operation>, Vec<Observation>) {
    let calls = vec![
        add("a", (0, 10), 1),
        del("a", (20, 30)),
        // May take it at 25, after the DEL has released it.
        add("b", (5, 25), 1),
        failed_add("c", (0, 40)),
        failed_del("c", (50, 60)),
        del("c", (70, 80)),
        add("d", (0, 10), 2),
        failed_del("d", (20, 30)),
        // The failed DEL released it.
        add("e", (21, 90), 2),
        del("d", (40, 50)),
        add("g", (0, 10), 3),
        failed_add("g", (11, 12)),
        del("g", (13, 14)),
        add("g", (20, 30), 4),
        // Its creation comes after the DEL.
        failed_add("h", (0, 10)),
        del("h", (20, 30)),
    ];
    let observations = vec![
        keys((11, 12), &[(1, "a"), (2, "d"), (3, "g")]),
        // During DEL and ADD, either may be seen.
        keys((21, 24), &[(2, "d"), (1, "a")]),
        keys((22, 24), &[(1, "b")]),
        keys((31, 40), &[(1, "b"), (4, "g"), (5, "h")]),
        after_gc(&[(1, "b"), (2, "e"), (4, "g")]),
    ];
    (calls, observations)
}

/// An address is reserved for somebody, and indexed.
fn put(seen: &mut Observation, last: u8, holder: &str) {
    let key = (address(last), holder.to_owned());
    seen.addresses.push(key.clone());
    seen.index.as_mut().unwrap().push(key);
}

/// A change of the calls, and of what was seen after GC.
type Change = fn(&mut Vec<Operation>, &mut Observation);

#[test]
fn a_correct_history_has_no_violation_and_each_wrong_one_has_its_own() {
    let changes: [(Change, &[&str]); 11] = [
        (|_, _| (), &[]),
        (
            |calls, _| calls.push(add("x", (30, 40), 1)),
            &["twice b x", "foreign x b"],
        ),
        (
            |calls, _| calls.push(add("g", (50, 60), 6)),
            &["added twice g", "missing g"],
        ),
        (
            |_, seen| {
                seen.addresses.remove(0);
                seen.index.as_mut().unwrap().remove(0);
            },
            &["missing b"],
        ),
        (|_, seen| put(seen, 1, "a"), &["not released a", "left a"]),
        (|_, seen| put(seen, 5, "h"), &["left h"]),
        // A write that is sent again may come late.
        (
            |_, seen| {
                put(seen, 1, "a");
                seen.sent_once = false;
            },
            &["left a"],
        ),
        // It is GC's.
        (
            |_, seen| {
                put(seen, 5, "h");
                seen.collected = false;
            },
            &[],
        ),
        (|_, seen| put(seen, 7, "nobody"), &["left nobody"]),
        (
            |_, seen| drop(seen.index.as_mut().unwrap().remove(0)),
            &["not indexed b"],
        ),
        (
            |_, seen| {
                let stale = (address(9), "a".to_owned());
                seen.index.as_mut().unwrap().push(stale);
            },
            &["only indexed a"],
        ),
    ];
    for (change, expected) in changes {
        let (mut calls, mut observations) = correct();
        change(&mut calls, observations.last_mut().unwrap());
        assert_eq!(found(calls, observations), expected);
    }
}

#[test]
fn an_address_that_one_attachment_has_all_the_time_is_found_with_each_other_one() {
    let mut calls = vec![
        add("a", (0, 10), 1),
        add("b", (20, 30), 1),
        del("b", (40, 50)),
        add("c", (60, 70), 1),
    ];
    assert_eq!(found(calls.clone(), vec![]), ["twice a b", "twice a c"]);
    // The same address of another pool.
    let red = Address {
        pool: "red".to_owned(),
        ..address(1)
    };
    calls[0].command = Command::Add(Outcome::Succeeded(vec![red]));
    assert_eq!(found(calls, vec![]), [""; 0]);
}

#[test]
fn a_history_that_cannot_be_judged_is_refused() {
    for calls in [
        vec![add("a", (10, 5), 1)],
        vec![add("a", (0, 10), 1), del("a", (9, 20))],
    ] {
        assert!(History::new(calls.clone(), vec![]).is_err(), "{calls:?}");
    }
}
