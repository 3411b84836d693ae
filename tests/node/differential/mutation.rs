//! The mutations that the world makes to a configuration, written as text: JSON values can't hold a
//! key twice.

use serde_json::Value;

/// A change to one place of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    /// JSON pointer of the place.
    pub(super) place: String,
    pub(super) change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The value is this JSON.
    Value(&'static str),
    /// The member is missing.
    Missing,
    /// The key is spelled so.
    Spelled(String),
    /// The key is there before, with another value of its type.
    Twice,
    /// The key is there again behind, in this spelling, with another value of its type.
    InTwoSpellings(String),
}

/// Values of each type, some of them wrong in each place.
const VALUES: [&str; 9] = [
    "7", "1.5", "\"x\"", "\"\"", "true", "[]", "{}", "null", "[null]",
];

/// All mutations of a configuration, except of the members with these keys.
pub(super) fn mutations(config: &Value, but_for: &[&str]) -> Vec<Mutation> {
    let mut all = Vec::new();
    add(config, "", but_for, &mut all);
    all
}

fn add(value: &Value, at: &str, but_for: &[&str], all: &mut Vec<Mutation>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members
                .iter()
                .filter(|(key, _)| !but_for.contains(&&***key))
            {
                let place = format!("{at}/{key}");
                let (upper, lower) = (key.to_uppercase(), key.to_lowercase());
                let long = key.replacen('s', "\u{17f}", 1).replacen('k', "\u{212a}", 1);
                let spellings = [upper.clone(), lower, long];
                let mut changes: Vec<Change> = spellings.map(Change::Spelled).into();
                changes.extend([
                    Change::Twice,
                    Change::InTwoSpellings(upper),
                    Change::Missing,
                ]);
                changes.extend(VALUES.map(Change::Value));
                let mutated = changes.into_iter().map(|change| Mutation {
                    place: place.clone(),
                    change,
                });
                all.extend(mutated);
                add(value, &place, but_for, all);
            }
        }
        Value::Array(elements) => {
            for (i, element) in elements.iter().enumerate() {
                let place = format!("{at}/{i}");
                all.extend(VALUES.map(|value| Mutation {
                    place: place.clone(),
                    change: Change::Value(value),
                }));
                add(element, &place, but_for, all);
            }
        }
        _ => {}
    }
}

/// The configuration as text, with this mutation.
pub(super) fn written(value: &Value, mutation: Option<&Mutation>) -> String {
    write(value, "", mutation)
}

fn write(value: &Value, at: &str, mutation: Option<&Mutation>) -> String {
    let change_at = |place: &str| {
        let here = mutation.filter(|mutation| mutation.place == place);
        here.map(|mutation| &mutation.change)
    };
    match value {
        Value::Object(members) => {
            let members = members.iter().filter_map(|(key, value)| {
                let place = format!("{at}/{key}");
                let text = write(value, &place, mutation);
                match change_at(&place) {
                    None => Some(format!("{key:?}:{text}")),
                    Some(Change::Missing) => None,
                    Some(Change::Value(value)) => Some(format!("{key:?}:{value}")),
                    Some(Change::Spelled(spelling)) => Some(format!("\"{spelling}\":{text}")),
                    Some(Change::Twice) => Some(format!("{key:?}:{},{key:?}:{text}", other(value))),
                    Some(Change::InTwoSpellings(spelling)) => {
                        Some(format!("{key:?}:{text},\"{spelling}\":{}", other(value)))
                    }
                }
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(elements) => {
            let elements = elements.iter().enumerate().map(|(i, element)| {
                let place = format!("{at}/{i}");
                match change_at(&place) {
                    Some(Change::Value(value)) => (*value).to_owned(),
                    _ => write(element, &place, mutation),
                }
            });
            format!("[{}]", elements.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Another value of the same type.
fn other(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "{}",
        Value::Array(_) => "[]",
        Value::Number(_) => "1",
        Value::String(text) if text.starts_with('/') => "\"/nowhere\"",
        Value::String(text) if text.contains('/') => "\"10.99.0.0/28\"",
        Value::String(text) if text.starts_with("10.") => "\"10.99.0.9\"",
        Value::String(text) if text.starts_with("1.") => "\"0.4.0\"",
        _ => "\"other\"",
    }
}
