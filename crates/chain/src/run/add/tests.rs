//! Tests of ADD with scripted delegates.

use super::*;
use crate::call::Kind;
use crate::tests::{Script, config, names};

fn add_and(
    script: &Script,
    delegates: &[&str],
    prev: &str,
    deliver: fn() -> io::Result<()>,
) -> Result<JsonOutput, Box<FailedAdd>> {
    let (config, names) = (config(prev), names(delegates));
    script.run(&names, |delegates| {
        let addition = Addition {
            delegates: delegates.clone(),
            names: &names,
            answer: script.answer,
            config: &config.without_prev_result(),
            file: None,
        };
        addition.run(|_| deliver())
    })
}

fn add(script: &Script, delegates: &[&str], prev: &str) -> Result<JsonOutput, Box<FailedAdd>> {
    add_and(script, delegates, prev, || Ok(()))
}

/// The lines of the error that tell of the rollback.
fn rollback(failed: &FailedAdd) -> Vec<&str> {
    let lines = failed.error.details.lines();
    lines.filter(|line| line.contains("undone")).collect()
}

#[test]
fn each_delegate_gets_the_result_of_the_one_before_it() {
    let script = Script::new(&[
        ("a", Command::Add, Some(r#"{"a": 1}"#)),
        ("b", Command::Add, Some("{\"b\":2}\n")),
    ]);
    let result = add(&script, &["a", "b"], "").unwrap();
    assert_eq!(script.log(), ["ADD a -", r#"ADD b {"a": 1}"#]);
    assert_eq!(result.into_bytes(), b"{\"b\":2}\n");
}

#[test]
fn a_failed_add_is_undone_with_the_prev_result_of_the_failed_delegate() {
    let script = Script::new(&[
        ("a", Command::Add, Some(r#"{"a":1}"#)),
        ("b", Command::Add, Some(r#"{"b":2}"#)),
        ("c", Command::Add, None),
        ("a", Command::Del, None),
        ("b", Command::Del, Some(r#"{"b":3}"#)),
    ]);
    let failed = add(&script, &["a", "b", "c", "d"], "").unwrap_err();
    assert_eq!(
        script.log()[2..],
        [
            r#"ADD c {"b":2}"#,
            r#"DEL a {"b":2}"#,
            r#"DEL b {"b":2}"#,
            r#"DEL c {"b":3}"#
        ]
    );
    assert_eq!(failed.error.msg, "c: no");
    assert_eq!(
        rollback(&failed),
        ["undone by DEL: b, c", "not undone, DEL failed: a: no"]
    );
}

#[test]
fn a_delegate_that_refuses_with_110_is_not_undone() {
    let mut script = Script::new(&[("a", Command::Add, Some("{}")), ("b", Command::Add, None)]);
    script.error_code = code::ALREADY_ALLOCATED;
    let failed = add(&script, &["a", "b"], "").unwrap_err();
    assert_eq!(script.log(), ["ADD a -", "ADD b {}", "DEL a {}"]);
    assert_eq!(rollback(&failed), ["undone by DEL: a"]);
}

#[test]
fn a_delegate_that_refuses_with_110_is_undone_in_none_of_its_places() {
    let mut script = Script::new(&[
        ("s", Command::Add, Some("{}")),
        ("a", Command::Add, Some(r#"{"a":1}"#)),
    ]);
    script.error_code = code::ALREADY_ALLOCATED;
    script.fails_after = Some(3);
    let failed = add(&script, &["s", "a", "s", "a"], "").unwrap_err();
    assert_eq!(script.log()[4..], ["DEL s {}", "DEL s {}"]);
    assert_eq!(rollback(&failed), ["undone by DEL: s, s"]);
}

#[test]
fn a_delegate_that_is_not_installed_is_not_undone() {
    let mut script = Script::new(&[("a", Command::Add, Some("{}"))]);
    script.missing = Some("b");
    let failed = add(&script, &["a", "b"], "").unwrap_err();
    assert_eq!(script.log(), ["ADD a -", "DEL a {}"]);
    assert_eq!(rollback(&failed), ["undone by DEL: a"]);
}

#[test]
fn the_networks_prev_result_is_not_the_chains() {
    let prev = r#","PrevResult":{"x":1},"prevResult":{"ips":[{"address":"10.0.0.9/24"}]}"#;
    for prev in ["", prev] {
        let script = Script::new(&[("a", Command::Add, None)]);
        add(&script, &["a", "b"], prev).unwrap_err();
        assert_eq!(script.log(), ["ADD a -", "DEL a -"]);
    }
}

#[test]
fn an_add_without_a_result_is_a_failure() {
    let script = Script::default();
    let failed = add(&script, &["a"], "").unwrap_err();
    assert_eq!(failed.error.code, code::DELEGATE_SILENT);
    assert_eq!(script.log(), ["ADD a -", "DEL a -"]);
}

#[test]
fn an_add_that_is_cancelled_between_two_delegates_or_at_its_end_is_undone() {
    let undone = ["ADD a -", r#"DEL a {"a":1}"#, r#"DEL b {"a":1}"#];
    for (delegates, expected) in [(&["a", "b"][..], &undone[..]), (&["a"], &undone[..2])] {
        let mut script = Script::new(&[("a", Command::Add, Some(r#"{"a":1}"#))]);
        script.cancelled_after = Some(1);
        let failed = add(&script, delegates, "").unwrap_err();
        assert_eq!(failed.error.code, code::INTERRUPTED);
        assert_eq!(script.log(), expected);
    }
}

#[test]
fn an_answer_that_nobody_gets_is_no_delegates_fault_and_undoes_all() {
    let results = [
        ("a", Command::Add, Some(r#"{"a":1}"#)),
        ("b", Command::Add, Some(r#"{"b":2}"#)),
        ("a", Command::Del, None),
    ];
    let undelivered = || Err(io::ErrorKind::BrokenPipe.into());
    let script = Script::new(&results);
    let failed = add_and(&script, &["a", "b"], "", undelivered).unwrap_err();
    let msg = "the chain's result could not be delivered: broken pipe";
    assert_eq!((failed.error.code, &*failed.error.msg), (code::IO, msg));
    let lines = "undone by DEL: b\nnot undone, DEL failed: a: no";
    assert_eq!(failed.error.details, lines);
    assert!(failed.may_hold);
    let mut cancelled = Script::new(&results[..2]);
    cancelled.cancelled_after = Some(2);
    let failed = add(&cancelled, &["a", "b"], "").unwrap_err();
    assert_eq!(failed.error.msg, "the call was cancelled");
    assert_eq!(failed.error.details, "undone by DEL: a, b");
    assert!(!failed.may_hold);
}

#[test]
fn a_delegate_that_fails_in_a_cancelled_call_counts_as_cancelled_unless_it_refuses() {
    for (error_code, counts) in [
        (code::IO, code::INTERRUPTED),
        (code::ALREADY_ALLOCATED, code::ALREADY_ALLOCATED),
    ] {
        let mut script = Script::new(&[("a", Command::Add, None)]);
        script.error_code = error_code;
        script.cancelled_after = Some(1);
        let failed = add(&script, &["a"], "").unwrap_err();
        assert_eq!(failed.error.code, counts);
    }
}

#[test]
fn a_delegate_that_refuses_its_configuration_is_no_failure_of_the_rollback() {
    let mut script = Script::new(&[
        ("a", Command::Add, Some("{}")),
        ("b", Command::Add, None),
        ("a", Command::Del, None),
        ("b", Command::Del, None),
    ]);
    for (error_code, not_undone) in [
        (code::INVALID_CONFIG, ["a"].iter()),
        (code::IO, ["a", "b"].iter()),
    ] {
        script.error_code = error_code;
        let failed = add(&script, &["a", "b"], "").unwrap_err();
        let expected = not_undone.map(|name| format!("not undone, DEL failed: {name}: no"));
        assert_eq!(rollback(&failed), expected.collect::<Vec<_>>());
    }
}

#[test]
fn only_the_last_merged_result_is_without_pools() {
    let mut script = Script::new(&[
        (
            "a",
            Command::Add,
            Some(r#"{"ips":[],"pools":[{"name":"x"}]}"#),
        ),
        ("b", Command::Add, Some(r#"{"ips":[],"b":1}"#)),
        (
            "c",
            Command::Add,
            Some(r#"{"ips":[{"address":"10.0.0.2/24"}]}"#),
        ),
    ]);
    script.answer = AnswerMode::Merge;
    let result = add(&script, &["a", "b", "c"], "").unwrap();
    assert!(script.log()[2].contains(r#""pools":[{"name":"x"}]"#));
    assert!(!result.json().get().contains("pools"));
}

/// Whether the delegate at this place, whose ADD has failed, may hold an address: after its DEL has
/// succeeded, and after it has failed.
fn holds(names: &[DelegateName], place: usize, failure: Failure) -> [bool; 2] {
    let cause = Cause::Delegate(place, failure);
    let to_undo = cause.to_undo(names).into_iter();
    let own = to_undo.filter(|name| **name == names[place] && !cause.is_refused_by(names, name));
    let not_undone = own.map(|name| FailedDelegate {
        delegate: name.clone(),
        call: String::new(),
        error: Error::new(code::IO, "no"),
    });
    let not_undone: Vec<FailedDelegate> = not_undone.collect();
    [&[][..], &not_undone].map(|not_undone| cause.may_hold(names, not_undone))
}

#[test]
fn a_delegate_holds_nothing_that_it_refused_and_something_unknown_if_it_was_killed() {
    const NOTHING: [bool; 2] = [false, false];
    const UNLESS_UNDONE: [bool; 2] = [false, true];
    const UNKNOWN: [bool; 2] = [true, true];
    let names = names(&["ipam-ds-ranges", "ipam-da-host-local"]);
    let printed = |code| Failure::printed(Error::new(code, "no"), "");
    let killed = || Failure::new(Kind::Died, code::DELEGATE_KILLED, "died");
    let not_found = || Failure::new(Kind::NotRun, code::DELEGATE_NOT_FOUND, "none");
    let failures: [(&dyn Fn() -> Failure, [bool; 2]); 10] = [
        (&|| printed(code::IO), UNLESS_UNDONE),
        (&|| printed(code::INVALID_CONFIG), NOTHING),
        (&|| printed(code::INVALID_ENVIRONMENT), NOTHING),
        (&|| printed(code::ALREADY_ALLOCATED), NOTHING),
        (&|| printed(code::UNKNOWN_OUTCOME), UNKNOWN),
        (&|| printed(code::INTERNAL), UNKNOWN),
        (&Failure::silent, UNLESS_UNDONE),
        (&Failure::cancelled, UNLESS_UNDONE),
        (&killed, UNKNOWN),
        (&not_found, NOTHING),
    ];
    for (failure, allocator) in failures {
        let held = [0, 1].map(|place| holds(&names, place, failure()));
        assert_eq!(held, [NOTHING, allocator], "{:?}", failure());
    }
}
