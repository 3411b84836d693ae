//! Draws the chain of an attachment, then each delegate with its input and its answer.

use std::net::IpAddr;

use cni::{IpamResult, Object};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::node::network::CHAIN;
use crate::node::of_answer;
use crate::output::joined;

/// A delegate of the ADD.
#[derive(Debug, Serialize)]
pub(super) struct ShownDelegate<'a> {
    pub(super) name: &'a str,
    /// Its `prevResult`; `null` without one.
    pub(super) given: Option<&'a RawValue>,
    /// Its answer; `null` if it isn't recorded.
    pub(super) answered: Option<&'a RawValue>,
}

/// The lines of the drawing; empty without a delegate.
pub(super) fn lines(delegates: &[ShownDelegate<'_>], main: &str) -> Vec<String> {
    let Some(width) = delegates.iter().map(|delegate| delegate.name.len()).max() else {
        return Vec::new();
    };
    let mut indent = format!("  {main} ── {CHAIN} ─");
    let mut lines = vec![String::new()];
    for (i, delegate) in delegates.iter().enumerate() {
        let branch = match (i, delegates.len()) {
            (_, 1) => "──",
            (0, _) => "┬─",
            (i, n) if i + 1 == n => "└─",
            _ => "├─",
        };
        let summary = match delegate.answered {
            Some(answer) => added(delegate.given, answer),
            None => "no answer is recorded".to_owned(),
        };
        lines.push(format!(
            "{indent}{branch} {:<width$}  {summary}",
            delegate.name
        ));
        indent = " ".repeat(indent.chars().count());
    }
    for (i, delegate) in delegates.iter().enumerate() {
        let given = match (i, delegate.given) {
            (0, _) => "the configuration of the ADD, without prevResult".to_owned(),
            (_, Some(_)) => format!("the answer of {} as prevResult", delegates[i - 1].name),
            (_, None) => "unknown".to_owned(),
        };
        let answered = delegate.answered.map_or("not recorded", RawValue::get);
        lines.extend([
            String::new(),
            format!("  {}. {}", i + 1, delegate.name),
            format!("     given     {given}"),
            format!("     answered  {answered}"),
        ]);
    }
    lines
}

/// A summary of the delegate's additions to the answer of the one before it.
fn added(given: Option<&RawValue>, answer: &RawValue) -> String {
    let before = given.map(ips).unwrap_or_default();
    let mut new = ips(answer);
    new.retain(|ip| !before.contains(ip));
    if !new.is_empty() {
        return joined(new, ", ");
    }
    let pools = of_answer(answer).unwrap_or_default();
    if !pools.is_empty() {
        let pools = pools.iter().map(|pool| match &pool.name {
            Some(name) => format!("pool {name} ({})", pool.ranges),
            None => format!("pool {}", pool.ranges),
        });
        return joined(pools, ", ");
    }
    let object: Object = serde_json::from_str(answer.get()).unwrap_or_default();
    format!("keys {}", joined(object.keys(), ", "))
}

fn ips(answer: &RawValue) -> Vec<IpAddr> {
    let result = IpamResult::read("result", answer).unwrap_or_default();
    result.ips.iter().map(cni::IpConfig::ip).collect()
}
