//! Tests the checker with correct and wrong histories.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;

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

#[test]
fn a_correct_history_has_no_violation() {
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
    ];
    let observations = vec![
        keys((11, 12), &[(1, "a"), (2, "d")]),
        // During DEL and ADD, either may be seen.
        keys((21, 24), &[(2, "d"), (1, "a")]),
        keys((22, 24), &[(1, "b")]),
        after_gc(&[(1, "b"), (2, "e")]),
    ];
    assert_eq!(found(calls, observations), [""; 0]);
}

#[test]
fn an_address_that_two_living_attachments_have_is_found() {
    let calls = vec![
        add("a", (0, 10), 1),
        del("a", (20, 30)),
        add("b", (5, 19), 1),
    ];
    assert_eq!(found(calls, vec![]), ["twice a b"]);
    let for_ever = vec![add("a", (0, 10), 1), add("b", (500, 600), 1)];
    assert_eq!(found(for_ever, vec![]), ["twice a b"]);
}

#[test]
fn an_address_that_one_attachment_has_all_the_time_is_found_with_each_other_one() {
    let calls = vec![
        add("a", (0, 10), 1),
        add("b", (20, 30), 1),
        del("b", (40, 50)),
        add("c", (60, 70), 1),
    ];
    assert_eq!(found(calls, vec![]), ["twice a b", "twice a c"]);
}

#[test]
fn the_same_address_of_two_pools_is_no_violation() {
    let mut other = add("b", (0, 10), 1);
    let red = Address {
        pool: "red".to_owned(),
        ..address(1)
    };
    other.command = Command::Add(Outcome::Succeeded(vec![red]));
    assert_eq!(found(vec![add("a", (0, 10), 1), other], vec![]), [""; 0]);
}

#[test]
fn a_second_add_that_succeeds_is_found() {
    let calls = vec![add("a", (0, 10), 1), add("a", (20, 30), 2)];
    assert_eq!(found(calls, vec![]), ["added twice a"]);
    let restarted = vec![
        add("a", (0, 10), 1),
        failed_add("a", (11, 12)),
        del("a", (13, 14)),
        add("a", (20, 30), 2),
    ];
    assert_eq!(found(restarted, vec![]), [""; 0]);
}

#[test]
fn a_living_attachment_whose_address_is_free_is_found() {
    let calls = || vec![add("a", (0, 10), 1)];
    assert_eq!(found(calls(), vec![keys((20, 30), &[])]), ["missing a"]);
    assert_eq!(found(calls(), vec![after_gc(&[])]), ["missing a"]);
    let of_another = vec![keys((20, 30), &[(1, "b")])];
    assert_eq!(found(calls(), of_another), ["foreign a b"]);
    // Before the ADD, and after the DEL.
    let mut early = calls();
    early.push(del("a", (40, 50)));
    let around = vec![keys((5, 20), &[]), keys((35, 45), &[])];
    assert_eq!(found(early, around), [""; 0]);
}

#[test]
fn an_address_that_a_del_has_not_released_is_found() {
    let released = vec![add("a", (0, 10), 1), del("a", (20, 30))];
    let with = |call: Operation| [&released[..], &[call]].concat();
    let mut seen = keys((31, 40), &[(1, "a")]);
    for calls in [
        released.clone(),
        // This ADD is later than what was seen.
        with(failed_add("a", (41, 50))),
    ] {
        assert_eq!(found(calls, vec![seen.clone()]), ["not released a"]);
    }
    for open in [
        vec![add("a", (0, 10), 1), failed_del("a", (20, 30))],
        // The DEL may have ended after it was seen.
        vec![add("a", (0, 10), 1), del("a", (20, 31))],
        // A creation may come late.
        vec![failed_add("a", (0, 10)), del("a", (20, 30))],
        with(add("a", (31, 32), 1)),
        with(failed_add("a", (35, 50))),
    ] {
        assert_eq!(found(open, vec![seen.clone()]), [""; 0]);
    }
    // A write that is sent again may come late, too.
    seen.sent_once = false;
    assert_eq!(found(released, vec![seen]), [""; 0]);
}

#[test]
fn what_gc_leaves_behind_is_found() {
    for gone in [
        vec![failed_add("a", (0, 10))],
        vec![failed_add("a", (0, 10)), del("a", (20, 30))],
        vec![add("a", (0, 10), 1), del("a", (20, 30))],
        vec![add("a", (0, 10), 1), failed_del("a", (20, 30))],
        // It has another address.
        vec![add("a", (0, 10), 2)],
        vec![],
    ] {
        let mut seen = after_gc(&[(1, "a"), (2, "a")]);
        seen.sent_once = false;
        let has_another = found(gone.clone(), vec![after_gc(&[(2, "a")])]).is_empty();
        if !has_another {
            seen.addresses.pop();
            seen.index.as_mut().unwrap().pop();
        }
        assert_eq!(found(gone.clone(), vec![seen.clone()]), ["left a"]);
        seen.collected = false;
        assert_eq!(found(gone, vec![seen]), [""; 0], "before GC");
    }
}

#[test]
fn an_address_that_del_and_gc_do_not_find_is_found() {
    let mut seen = keys((20, 30), &[(1, "a"), (2, "b")]);
    let calls = || vec![add("a", (0, 10), 1), add("b", (0, 10), 2)];
    seen.index = Some(vec![(address(1), "a".to_owned())]);
    assert_eq!(found(calls(), vec![seen.clone()]), ["not indexed b"]);
    let (known, stale) = ((address(1), "a".to_owned()), (address(3), "a".to_owned()));
    seen.index = Some(vec![known, (address(2), "b".to_owned()), stale]);
    assert_eq!(found(calls(), vec![seen.clone()]), ["only indexed a"]);
    seen.index = None;
    assert_eq!(found(calls(), vec![seen]), [""; 0]);
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

#[test]
fn the_living_are_those_that_were_added_and_not_deleted() {
    let calls = vec![
        add("a", (0, 10), 1),
        add("b", (0, 10), 2),
        failed_del("b", (20, 30)),
        failed_add("c", (0, 10)),
    ];
    let history = History::new(calls, vec![]).unwrap();
    assert_eq!(history.living(), ["a"]);
    assert_eq!(history.adds(), (2, 3));
}

/// An attachment's ADD and DEL of one address: start and end of each.
#[derive(Clone, Copy, Debug)]
struct Life {
    add: (u64, u64),
    del: Option<(u64, u64)>,
}

fn life() -> impl Strategy<Value = Life> {
    let del = proptest::option::weighted(0.9, (0..8u64, 0..8u64));
    (0..40u64, 0..8u64, del).prop_map(|(start, took, del)| {
        let end = start + took;
        let del = del.map(|(after, took)| (end + after, end + after + took));
        Life {
            add: (start, end),
            del,
        }
    })
}

fn calls_of(lives: &[Life]) -> Vec<Operation> {
    let calls = lives.iter().enumerate().flat_map(|(i, life)| {
        let name = format!("c{i}");
        let del = life.del.map(|times| del(&name, times));
        [Some(add(&name, life.add, 1)), del]
    });
    calls.flatten().collect()
}

/// True if these attachments can have taken and released the address one after the other, in some
/// order, at times within their calls.
fn in_some_order(free_from: u64, left: &[Life]) -> bool {
    left.is_empty()
        || (0..left.len()).any(|i| {
            let mut others = left.to_vec();
            let Life { add, del } = others.swap_remove(i);
            let taken = free_from.max(add.0);
            match del {
                _ if taken > add.1 => false,
                None => others.is_empty(),
                Some(del) => {
                    let released = taken.max(del.0);
                    released <= del.1 && in_some_order(released, &others)
                }
            }
        })
}

proptest! {
    #[test]
    fn an_address_is_found_twice_if_no_order_explains_the_calls(
        lives in proptest::collection::vec(life(), 0..6)
    ) {
        let found = found(calls_of(&lives), vec![]);
        prop_assert_eq!(found.is_empty(), in_some_order(0, &lives), "{:?}", found);
    }

    /// A correct allocator acts at times within the calls; observations may be at any time.
    #[test]
    fn a_right_allocator_is_not_accused(
        steps in proptest::collection::vec((0..4u8, 0..5u64, 0..5u64, any::<bool>()), 1..60)
    ) {
        let (mut now, mut held) = (100, BTreeMap::<u8, String>::new());
        let (mut calls, mut observations) = (Vec::new(), Vec::new());
        let mut ended = BTreeMap::new();
        for (i, (last, before, after, looks)) in steps.into_iter().enumerate() {
            now += 1;
            match held.remove(&last) {
                None => {
                    let name = format!("c{i}");
                    calls.push(add(&name, (now - before, now + after), last));
                    ended.insert(name.clone(), now + after);
                    held.insert(last, name);
                }
                Some(holder) => {
                    // DEL isn't called before the end of the ADD.
                    now = now.max(ended[&holder] + 1);
                    let started = (now - before).max(ended[&holder]);
                    calls.push(del(&holder, (started, now + after)));
                }
            }
            if looks {
                let seen: Vec<_> = held.iter().map(|(last, address)| (*last, address.as_str())).collect();
                observations.push(keys((now - before, now + after), &seen));
            }
        }
        let seen: Vec<_> = held.iter().map(|(last, address)| (*last, address.as_str())).collect();
        observations.push(after_gc(&seen));
        observations.last_mut().unwrap().started = at(now + 10);
        observations.last_mut().unwrap().ended = at(now + 10);
        prop_assert_eq!(found(calls, observations), [""; 0]);
    }
}
