//! `prevResult` of a command other than ADD, completed with recorded results.

use cni::{Command, NetworkConfig, Object, SpecVersion};
use serde_json::value::{RawValue, to_raw_value};

/// The configuration, in a version that knows CHECK.
pub(crate) fn checkable(config: &NetworkConfig) -> NetworkConfig {
    if config.version() >= Command::Check.since() {
        return config.clone();
    }
    config.in_version(SpecVersion::V0_4_0)
}

/// Adds the keys to `prevResult` that only the recorded result has: a runtime's
/// `prevResult` has the addresses, a selector's result has the pools.
pub(crate) fn completed(prev_result: Option<&RawValue>, recorded: &RawValue) -> Box<RawValue> {
    let (Some(mut all), Some(more)) = (prev_result.and_then(object), object(recorded)) else {
        return recorded.to_owned();
    };
    for (key, value) in more.iter() {
        if all.get(key).is_none() {
            all.set_raw(key, value.to_owned());
        }
    }
    to_raw_value(&all).expect("an object is JSON")
}

/// The keys of a result that the specification defines, section 5.
const SPECIFIED: [&str; 5] = ["cniVersion", "interfaces", "ips", "routes", "dns"];

/// `prevResult` with the keys of a selector's recorded result that only delegates understand.
pub(crate) fn with_selection(prev_result: &RawValue, selection: &RawValue) -> Box<RawValue> {
    let (Some(mut all), Some(selection)) = (object(prev_result), object(selection)) else {
        return prev_result.to_owned();
    };
    for (key, value) in selection.iter().filter(|(key, _)| !SPECIFIED.contains(key)) {
        all.set_raw(key, value.to_owned());
    }
    to_raw_value(&all).expect("an object is JSON")
}

fn object(raw: &RawValue) -> Option<Object> {
    serde_json::from_str(raw.get()).ok()
}
