//! The `prevResult` of the next delegate in a command other than ADD, by what the delegate before it
//! has printed, and what is recorded of it.

use cni::{Object, is_field};
use serde_json::value::{RawValue, to_raw_value};

use crate::record::RecordedDelegate;

/// A printed result with what it lacks of `prevResult`: the keys that are missing, `null` or empty.
/// A selector that prints `"ips": []` on every command takes no address from the allocator after it.
pub(crate) fn added(prev_result: Option<&RawValue>, printed: &RawValue) -> Box<RawValue> {
    let (Some(earlier), Some(mut all)) = (prev_result.and_then(object), object(printed)) else {
        return printed.to_owned();
    };
    let mut has_changed = false;
    for (key, value) in earlier.iter() {
        if all.get(key).is_none_or(is_empty) && !is_empty(value) {
            all.set_raw(key, value.to_owned());
            has_changed = true;
        }
    }
    match has_changed {
        true => to_raw_value(&all).expect("an object is JSON"),
        false => printed.to_owned(),
    }
}

/// True for `null`, `[]` and `{}`.
fn is_empty(value: &RawValue) -> bool {
    let text: String = value.get().split_whitespace().collect();
    matches!(text.as_str(), "null" | "[]" | "{}")
}

/// The keys of a result that the specification defines, section 5.
const SPECIFIED: [&str; 5] = ["cniVersion", "interfaces", "ips", "routes", "dns"];

/// Adds the keys to `prevResult` that only the delegate's recorded result has: a runtime's
/// `prevResult` has the addresses, a selector's result has the pools. If the delegate holds nothing,
/// the keys that only delegates understand are always those of the record. `None` without a recorded
/// result.
pub(crate) fn completed(
    prev_result: Option<&RawValue>,
    recorded: &RecordedDelegate,
) -> Option<Box<RawValue>> {
    let result = recorded.result.as_deref()?;
    let (Some(mut all), Some(more)) = (prev_result.and_then(object), object(result)) else {
        return Some(result.to_owned());
    };
    for (key, value) in more.iter() {
        let is_specified = SPECIFIED.iter().any(|specified| is_field(key, specified));
        let is_selected = recorded.name.holds_nothing() && !is_specified;
        if is_selected || all.get(key).is_none() {
            all.set_raw(key, value.to_owned());
        }
    }
    Some(to_raw_value(&all).expect("an object is JSON"))
}

fn object(raw: &RawValue) -> Option<Object> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_printed_result_adds_and_takes_nothing_away() {
        let before = r#"{"ips":[{"address":"10.0.0.2/24"}],"pools":[1],"x":1.50}"#;
        for (printed, next) in [
            (
                r#"{"pools":[2],"ips":[]}"#,
                r#"{"pools":[2],"ips":[{"address":"10.0.0.2/24"}],"x":1.50}"#,
            ),
            (
                r#"{"ips": null , "pools":[ ]}"#,
                r#"{"ips":[{"address":"10.0.0.2/24"}],"pools":[1],"x":1.50}"#,
            ),
            ("{}", before),
            (
                r#"{"x":2,"ips":[3],"pools":{}, "y":[]}"#,
                r#"{"x":2,"ips":[3],"pools":[1],"y":[]}"#,
            ),
            // As it came.
            (
                r#"{ "ips":[4], "pools":[5],"x":0}"#,
                r#"{ "ips":[4], "pools":[5],"x":0}"#,
            ),
        ] {
            let added = added(Some(&raw(before)), &raw(printed));
            assert_eq!(added.get(), next, "{printed}");
        }
        let printed = r#"{"ips": []}"#;
        for before in [None, Some(&*raw(r#"{"ips":[ ]}"#)), Some(&*raw("7"))] {
            assert_eq!(added(before, &raw(printed)).get(), printed);
        }
    }
}
