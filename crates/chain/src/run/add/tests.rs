//! Tests of ADD with scripted delegates.

use super::*;
use crate::tests::{Script, attachment, config, names};

fn add(script: &Script, delegates: &[&str], prev: &str) -> Result<JsonOutput, Box<FailedAdd>> {
    let (config, names) = (config(prev), names(delegates));
    script.run(&names, &config, |delegates| {
        delegates.add(&attachment(), |_, _| {}, |_| Ok(()))
    })
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
fn each_result_is_told_as_the_next_prev_result() {
    let first = r#"{"ips":[{"address":"10.0.0.2/24"}]}"#;
    let mut script = Script::new(&[
        ("a", Command::Add, Some(first)),
        (
            "b",
            Command::Add,
            Some(r#"{"ips":[{"address":"fd00::2/64"}],"b":1}"#),
        ),
    ]);
    script.answer = AnswerMode::Merged;
    let (config, names) = (config(""), names(&["a", "b"]));
    let mut told = Vec::new();
    let tell = |raw: &RawValue, is_last| told.push((raw.get().to_owned(), is_last));
    let result = script.run(&names, &config, |delegates| {
        delegates.add(&attachment(), tell, |_| Ok(())).unwrap()
    });
    assert_eq!(told[0], (first.to_owned(), false));
    assert_eq!(told[1], (result.json().get().to_owned(), true));
    assert!(told[1].0.contains("10.0.0.2/24") && told[1].0.contains("fd00::2/64"));
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
    assert_eq!(failed.failed.delegate.as_str(), "c");
    assert_eq!(failed.undone, names(&["b", "c"]));
    assert_eq!(failed.not_undone[0].delegate.as_str(), "a");
}

#[test]
fn a_delegate_that_refuses_with_110_is_not_undone() {
    let mut script = Script::new(&[("a", Command::Add, Some("{}")), ("b", Command::Add, None)]);
    script.error_code = code::ALREADY_ALLOCATED;
    let failed = add(&script, &["a", "b"], "").unwrap_err();
    assert_eq!(script.log(), ["ADD a -", "ADD b {}", "DEL a {}"]);
    assert_eq!(failed.undone, names(&["a"]));
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
    assert_eq!(failed.undone, names(&["s", "s"]));
}

#[test]
fn a_delegate_that_is_not_installed_is_not_undone() {
    let mut script = Script::new(&[("a", Command::Add, Some("{}"))]);
    script.missing = Some("b");
    let failed = add(&script, &["a", "b"], "").unwrap_err();
    assert_eq!(script.log(), ["ADD a -", "DEL a {}"]);
    assert_eq!(failed.undone, names(&["a"]));
    assert!(failed.not_undone.is_empty());
}

#[test]
fn the_rollback_of_the_first_gets_its_prev_result() {
    for (prev, prev_result) in [("", "-"), (r#","prevResult":{"x":0}"#, r#"{"x":0}"#)] {
        let script = Script::new(&[("a", Command::Add, None)]);
        add(&script, &["a", "b"], prev).unwrap_err();
        let log = [
            format!("ADD a {prev_result}"),
            format!("DEL a {prev_result}"),
        ];
        assert_eq!(script.log(), log);
    }
}

#[test]
fn an_add_without_a_result_is_a_failure() {
    let script = Script::default();
    let failed = add(&script, &["a"], "").unwrap_err();
    assert_eq!(failed.failed.error.code, code::DELEGATE_SILENT);
    assert_eq!(script.log(), ["ADD a -", "DEL a -"]);
}

#[test]
fn an_add_that_is_cancelled_at_its_end_is_undone() {
    let mut script = Script::new(&[("a", Command::Add, Some(r#"{"a":1}"#))]);
    script.cancelled_after = Some(1);
    let failed = add(&script, &["a"], "").unwrap_err();
    assert_eq!(failed.failed.error.code, code::INTERRUPTED);
    assert_eq!(script.log(), ["ADD a -", r#"DEL a {"a":1}"#]);
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
        assert_eq!(failed.failed.error.code, counts);
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
        (code::INVALID_CONFIG, vec!["a"]),
        (code::IO, vec!["a", "b"]),
    ] {
        script.error_code = error_code;
        let failed = add(&script, &["a", "b"], "").unwrap_err();
        let failed = failed.not_undone.iter();
        let names: Vec<&str> = failed.map(|failed| failed.delegate.as_str()).collect();
        assert_eq!(names, not_undone);
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
    script.answer = AnswerMode::Merged;
    let result = add(&script, &["a", "b", "c"], "").unwrap();
    assert!(script.log()[2].contains(r#""pools":[{"name":"x"}]"#));
    assert!(!result.json().get().contains("pools"));
}

#[test]
fn only_a_delegate_that_may_have_reserved_may_hold_an_address() {
    let names = names(&["ipam-ds-ranges", "ipam-da-host-local"]);
    let printed = |code| Failure::printed(Error::new(code, "no"), "");
    for (failure, [selector, allocator]) in [
        (printed(code::IO), [false, true]),
        (printed(code::INVALID_CONFIG), [false, false]),
        (printed(code::ALREADY_ALLOCATED), [false, false]),
        (Failure::silent(), [true, true]),
        (
            Failure::new(Kind::Died, code::DELEGATE_KILLED, "died"),
            [true, true],
        ),
        (
            Failure::new(Kind::NotFound, code::DELEGATE_NOT_FOUND, "none"),
            [false, false],
        ),
    ] {
        let holds = [0, 1].map(|i| may_hold_address(&names[i], &failure));
        assert_eq!(holds, [selector, allocator], "{failure:?}");
    }
}
