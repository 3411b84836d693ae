//! Merges the results of several delegates, for those that ignore `prevResult`.

use std::mem::take;

use cni::{Dns, IpConfig, IpamResult, JsonOutput, Object, SpecVersion};
use serde_json::Value;

use crate::call::Failure;

/// Merges a result into `prevResult`: the addresses and routes of `prevResult` come first,
/// without duplicates; the lists of `dns` likewise. Any other key has the result's value, or
/// else that of `prevResult`.
///
/// # Errors
///
/// One of them is no result.
pub(crate) fn merge(
    prev_result: &JsonOutput,
    result: &JsonOutput,
    version: SpecVersion,
) -> Result<JsonOutput, Failure> {
    let read = |output: &JsonOutput| {
        IpamResult::read("result", output.json())
            .map_err(|error| Failure::no_result(result, &error.msg))
    };
    let (earlier, mut merged) = (read(prev_result)?, read(result)?);
    for (key, value) in earlier.others() {
        if merged.other(key).is_none() {
            merged.set_other(key, value);
        }
    }
    merged.ips = joined(earlier.ips, merged.ips, IpConfig::ip);
    merged.routes = joined(earlier.routes, merged.routes, value);
    merge_dns(earlier.dns, &mut merged.dns);
    Ok(JsonOutput::of_result(&merged, version))
}

/// Keys of a result that only delegates understand.
const OF_DELEGATES: [&str; 2] = ["pools", "facts"];

/// The chain's answer: the last result as it came, except for what only delegates understand.
pub(crate) fn answer(last: &JsonOutput) -> JsonOutput {
    let read = cni::read::<Object>("result", last.json());
    let has_keys = |object: &Object| OF_DELEGATES.iter().any(|key| object.get(key).is_some());
    let Some(mut object) = read.ok().filter(has_keys) else {
        return last.clone();
    };
    for key in OF_DELEGATES {
        object.remove(key);
    }
    let bytes = serde_json::to_vec(&object).expect("an object is JSON");
    JsonOutput::try_from(bytes).expect("an object is JSON")
}

fn merge_dns(earlier: Dns, merged: &mut Dns) {
    for (earlier, merged) in [
        (earlier.nameservers, &mut merged.nameservers),
        (earlier.search, &mut merged.search),
        (earlier.options, &mut merged.options),
    ] {
        *merged = joined(earlier, take(merged), Clone::clone);
    }
    if merged.domain.is_empty() {
        merged.domain = earlier.domain;
    }
}

/// Joins two lists; of items with equal keys, the first is kept.
fn joined<T, K: PartialEq>(mut all: Vec<T>, more: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    for item in more {
        if all.iter().all(|earlier| key(earlier) != key(&item)) {
            all.push(item);
        }
    }
    all
}

fn value(route: &Object) -> Value {
    // A number may be too large for a `Value`; then the spelling counts.
    serde_json::to_value(route)
        .or_else(|_| serde_json::to_string(route).map(Value::String))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(json: &str) -> JsonOutput {
        JsonOutput::try_from(json.as_bytes().to_vec()).unwrap()
    }

    fn merged(earlier: &str, later: &str) -> Value {
        let merged = merge(&printed(earlier), &printed(later), SpecVersion::V1_0_0).unwrap();
        serde_json::from_str(merged.json().get()).unwrap()
    }

    #[test]
    fn lists_are_joined_in_order_without_duplicates() {
        let got = merged(
            r#"{"ips":[{"address":"10.0.0.2/24","gateway":"10.0.0.1"}],
                "routes":[{"dst":"0.0.0.0/0"},{"dst":"10.0.0.0/8","gw":"10.0.0.9"}],
                "dns":{"nameservers":["10.0.0.1"],"domain":"one","search":["a","b"]},
                "pools":[1],"x":1}"#,
            r#"{"ips":[{"address":"fd00::2/64"},{"address":"10.0.0.2/24"}],
                "routes":[{"gw":"10.0.0.9","dst":"10.0.0.0/8"},{"dst":"::/0"}],
                "dns":{"nameservers":["fd00::1","10.0.0.1"],"search":["b","c"],"options":["rotate"]},
                "x":2,"y":3}"#,
        );
        assert_eq!(
            got,
            serde_json::json!({
                "cniVersion": "1.0.0",
                "ips": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1"}, {"address": "fd00::2/64"}],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.0.0.9"}, {"dst": "::/0"}],
                "dns": {
                    "nameservers": ["10.0.0.1", "fd00::1"], "domain": "one",
                    "search": ["a", "b", "c"], "options": ["rotate"]
                },
                "x": 2, "y": 3, "pools": [1]
            })
        );
    }

    #[test]
    fn a_later_result_that_has_it_all_stays_as_it_is() {
        let earlier = r#"{"ips":[{"address":"10.0.0.2/24"}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{"domain":"a"}}"#;
        let later = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24"},{"address":"fd00::2/64"}],
            "routes":[{"dst":"0.0.0.0/0"}],"dns":{"domain":"b"},"z":[1]}"#;
        assert_eq!(
            merged(earlier, later),
            serde_json::from_str::<Value>(later).unwrap()
        );
    }

    #[test]
    fn routes_that_no_value_can_hold_are_told_apart_too() {
        let route = |dst: &str| format!(r#"{{"routes":[{{"dst":"{dst}","x":1e400}}]}}"#);
        let (one, two) = (route("10.0.0.0/8"), route("10.0.0.0/9"));
        let routes = |one: &str, two: &str| {
            let merged = merge(&printed(one), &printed(two), SpecVersion::LATEST).unwrap();
            merged.json().get().matches("dst").count()
        };
        assert_eq!(routes(&one, &two), 2);
        assert_eq!(routes(&one, &one), 1);
    }

    #[test]
    fn what_is_for_delegates_is_merged_for_them_and_left_out_of_the_answer() {
        let (selector, other) = (
            printed(r#"{"pools":[1],"facts":{"a":"b"},"x":1}"#),
            printed("{}"),
        );
        let merged = merge(&selector, &other, SpecVersion::V1_0_0).unwrap();
        let keys = |output: &JsonOutput| {
            let object: Object = serde_json::from_str(output.json().get()).unwrap();
            ["pools", "facts", "x"].map(|key| object.get(key).is_some())
        };
        assert_eq!(keys(&merged), [true; 3]);
        assert_eq!(keys(&answer(&merged)), [false, false, true]);
        let as_it_came = "{ \"ips\": [],\n\"x\": 1.50 }\n";
        assert_eq!(
            answer(&printed(as_it_came)).as_bytes(),
            as_it_came.as_bytes()
        );
    }

    #[test]
    fn what_is_no_result_is_an_error() {
        let error = merge(
            &printed(r#"{"ips":{}}"#),
            &printed("{}"),
            SpecVersion::LATEST,
        );
        assert!(error.is_err());
    }
}
