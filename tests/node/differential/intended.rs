//! Intended differences between `host-local` and ours in random calls.

use std::collections::BTreeSet;

use harness::Output;
use ipam::Range;
use serde_json::Value;

use super::Files;
use super::generator::Step;

/// The reason why the two may differ after this step, if there is one: a row of the table in
/// `docs/migrating-from-host-local.md`.
pub(super) fn intended(
    step: &Step,
    gateways: &BTreeSet<String>,
    before: &Files,
    [theirs, ours]: [&Output; 2],
    [their_files, our_files]: [&Files; 2],
) -> Option<&'static str> {
    let mut new = their_files
        .keys()
        .filter(|name| !before.contains_key(*name));
    if new.any(|name| gateways.contains(name)) {
        return Some("one range's gateway in another range");
    }
    let mine = format!("{}\r\n{}", step.container, step.ifname);
    let held_before = before.values().any(|content| *content == mine);
    let asks = step.args.is_some() || !step.keys.is_empty();
    let only_rotation_differs = {
        let reservations = |files: &Files| {
            let mut files = files.clone();
            files.retain(|name, _| !name.starts_with("last_reserved_ip."));
            files
        };
        reservations(their_files) == reservations(our_files)
    };
    if step.command == "ADD" && ours.status.success() {
        if theirs.status.success() {
            return (asks && only_rotation_differs)
                .then_some("a requested address leaves the rotation where it is");
        }
        return held_before.then_some("a second ADD, which the chain refuses by its record");
    }
    if theirs.status.success() && !ours.status.success() {
        return (held_before && asks && ours.code() == 110)
            .then_some("a second ADD of an attachment with another address requested");
    }
    if theirs.status.success() || ours.status.success() {
        let mut others = before.clone();
        others.retain(|_, content| *content != mine);
        return (step.command == "DEL" && *our_files == others)
            .then_some("DEL with an invalid configuration");
    }
    // A refused ADD may have made the file of the rotation.
    if only_rotation_differs {
        return Some("requests that no range serves, or two of one range set");
    }
    // host-local has released the attachment's earlier addresses; ours hasn't.
    let released = |(name, content): (&String, &String)| {
        their_files.contains_key(name) || *content == mine || name.starts_with("last_reserved_ip.")
    };
    (held_before && before.iter().all(released) && unchanged(before, our_files))
        .then_some("ADD fails at a later range set")
}

/// The gateways of all ranges of a configuration.
pub(super) fn gateways(config: &Value) -> BTreeSet<String> {
    let lists = [
        &config["ipam"]["ranges"],
        &config["runtimeConfig"]["ipRanges"],
    ];
    let sets = lists.iter().filter_map(|sets| sets.as_array()).flatten();
    let ranges = sets.filter_map(Value::as_array).flatten();
    ranges
        .chain([&config["ipam"]])
        .filter_map(|range| {
            let range = serde_json::from_value(range.clone()).ok()?;
            let range = Range::read("range", &range).ok()?;
            Some(range.gateway()?.to_string())
        })
        .collect()
}

/// True if the same addresses are reserved as before.
fn unchanged(before: &Files, after: &Files) -> bool {
    let reserved = |files: &Files| {
        let names = files
            .keys()
            .filter(|name| !name.starts_with("last_reserved_ip."));
        names.cloned().collect::<Vec<_>>()
    };
    reserved(before) == reserved(after)
}
