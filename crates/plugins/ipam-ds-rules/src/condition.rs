//! A condition of a rule on a fact.

use std::borrow::Cow;
use std::fmt;

use cni::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wildmatch::WildMatch;

/// Characters of a text that make it a pattern.
const WILDCARDS: [char; 2] = ['*', '?'];

/// A condition on a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition<'a> {
    /// `null`: the fact is missing.
    Missing,
    /// A text: the fact matches it. `*` matches any characters, and `?` matches one.
    #[serde(borrow)]
    Text(Cow<'a, str>),
    /// An array: at least one of these conditions holds.
    Any(Vec<Condition<'a>>),
    /// `{"not": …}`: this condition doesn't hold. A missing fact matches no text.
    Not(Box<Condition<'a>>),
}

impl Condition<'_> {
    /// Reads a condition. Messages name `path`.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub(crate) fn read(path: &str, value: Value) -> Result<Self, Error> {
        let invalid = |why: &str| Err(Error::config(format!("{path}: {why}")));
        match value {
            Value::Null => Ok(Self::Missing),
            Value::String(text) => Ok(Self::Text(text.into())),
            Value::Array(all) if all.is_empty() => {
                invalid("the array is empty, so that the rule never holds")
            }
            Value::Array(all) => {
                let read = |(i, value)| Self::read(&format!("{path}[{i}]"), value);
                let all: Result<_, _> = all.into_iter().enumerate().map(read).collect();
                all.map(Self::Any)
            }
            Value::Object(mut members) => match (members.remove("not"), members.len()) {
                (Some(value), 0) => {
                    let inner = Self::read(&format!("{path}.not"), value)?;
                    Ok(Self::Not(Box::new(inner)))
                }
                _ => invalid("an object is a condition only as {\"not\": …}"),
            },
            other => invalid(&format!(
                "{other} is no condition; a text, an array, {{\"not\": …}} and null are"
            )),
        }
    }

    /// True if the condition holds for the fact; `None` means that the fact is missing.
    pub fn holds(&self, fact: Option<&str>) -> bool {
        match self {
            Self::Missing => fact.is_none(),
            Self::Text(pattern) => fact.is_some_and(|fact| matches(pattern, fact)),
            Self::Any(all) => all.iter().any(|condition| condition.holds(fact)),
            Self::Not(condition) => !condition.holds(fact),
        }
    }

    /// The condition's text, or the first of its array, if it has no wildcards.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Text(text) => (!text.contains(WILDCARDS)).then_some(text),
            Self::Any(all) => all.first()?.literal(),
            Self::Missing | Self::Not(_) => None,
        }
    }

    /// True if `other` holds whenever this condition holds. False may also mean that this is
    /// unknown, because patterns are compared only with texts.
    pub(crate) fn implies(&self, other: &Condition<'_>) -> bool {
        if self == other {
            return true;
        }
        match (self, other) {
            (Self::Any(all), _) => all.iter().all(|condition| condition.implies(other)),
            (Self::Missing, _) => other.holds(None),
            (Self::Text(text), _) if !text.contains(WILDCARDS) => other.holds(Some(text)),
            (_, Condition::Any(others)) => others.iter().any(|condition| self.implies(condition)),
            _ => false,
        }
    }
}

fn matches(pattern: &str, fact: &str) -> bool {
    let Some(wildcard) = pattern.find(WILDCARDS) else {
        return pattern == fact;
    };
    // Most patterns differ from the fact before their first wildcard, and need not be compiled.
    fact.starts_with(&pattern[..wildcard]) && WildMatch::new(pattern).matches(fact)
}

impl fmt::Display for Condition<'_> {
    /// The condition as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("null"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Any(all) => {
                f.write_str("[")?;
                for (i, condition) in all.iter().enumerate() {
                    write!(f, "{}{condition}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Not(condition) => write!(f, "{{\"not\": {condition}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn condition(json: &str) -> Result<Condition<'static>, String> {
        let value = serde_json::from_str(json).unwrap();
        Condition::read("when.A", value).map_err(|error| error.msg)
    }

    #[test]
    fn each_form_holds_for_some_facts_and_not_for_others() {
        for (json, holds, fails) in [
            (
                r#""prod""#,
                &[Some("prod")][..],
                &[None, Some("product"), Some("")][..],
            ),
            (
                r#""db-*""#,
                &[Some("db-"), Some("db-0")],
                &[Some("adb-0"), None],
            ),
            (
                r#""db-?""#,
                &[Some("db-0"), Some("db-ä")],
                &[Some("db-"), Some("db-10")],
            ),
            (r#""*""#, &[Some(""), Some("x/y\n")], &[None]),
            (
                r#"["web","shop-*"]"#,
                &[Some("web"), Some("shop-1")],
                &[Some("shop"), None],
            ),
            (r#"{"not":"dev"}"#, &[Some("prod"), None], &[Some("dev")]),
            (
                r#"{"not":["dev",null]}"#,
                &[Some("prod"), Some("")],
                &[Some("dev"), None],
            ),
            ("null", &[None], &[Some("")]),
            (r#"["web",null]"#, &[None, Some("web")], &[Some("")]),
        ] {
            let condition = condition(json).unwrap();
            for fact in holds {
                assert!(condition.holds(*fact), "{json} {fact:?}");
            }
            for fact in fails {
                assert!(!condition.holds(*fact), "{json} {fact:?}");
            }
            assert_eq!(
                condition.to_string().replace(", ", ",").replace(": ", ":"),
                json
            );
        }
    }

    #[test]
    fn a_condition_implies_one_that_holds_for_each_of_its_facts() {
        for (one, other) in [
            (r#""a""#, r#""a""#),
            (r#""a""#, r#"["b","a"]"#),
            (r#""a""#, r#""*""#),
            (r#"["a1","a2"]"#, r#""a?""#),
            (r#""a*""#, r#"["b","a*"]"#),
            (r#"["a*","b"]"#, r#"["b","c","a*"]"#),
            (r#""a""#, r#"{"not":"b"}"#),
            ("null", r#"{"not":"b"}"#),
            ("null", "null"),
            (r#"{"not":"b"}"#, r#"{"not":"b"}"#),
        ] {
            let [one, other] = [one, other].map(|json| condition(json).unwrap());
            assert!(one.implies(&other), "{one} {other}");
        }
        for (one, other) in [
            (r#""a""#, r#""b""#),
            (r#"["a","c"]"#, r#""a""#),
            (r#""a*""#, r#""a?""#),
            (r#""*""#, r#""a""#),
            ("null", r#""*""#),
            (r#"["a",null]"#, r#""a""#),
            (r#"{"not":"a"}"#, r#"{"not":"b"}"#),
        ] {
            let [one, other] = [one, other].map(|json| condition(json).unwrap());
            assert!(!one.implies(&other), "{one} {other}");
        }
    }

    fn any_condition() -> impl Strategy<Value = Condition<'static>> {
        let leaf = prop_oneof![
            Just(Condition::Missing),
            "[ab*?]{0,3}".prop_map(|text| Condition::Text(text.into())),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..3).prop_map(Condition::Any),
                inner.prop_map(|condition| Condition::Not(Box::new(condition))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_implied_holds(
            one in any_condition(),
            other in any_condition(),
            fact in proptest::option::of("[ab*?]{0,3}"),
        ) {
            let fact = fact.as_deref();
            if one.implies(&other) && one.holds(fact) {
                prop_assert!(other.holds(fact), "{one} {other} {fact:?}");
            }
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_by_key_and_value() {
        for (json, message) in [
            (
                "7",
                "when.A: 7 is no condition; a text, an array, {\"not\": …} and null are",
            ),
            (
                "[]",
                "when.A: the array is empty, so that the rule never holds",
            ),
            (
                r#"["a",true]"#,
                "when.A[1]: true is no condition; a text, an array, {\"not\": …} and null are",
            ),
            (
                r#"{"is":"a"}"#,
                "when.A: an object is a condition only as {\"not\": …}",
            ),
            (
                "{}",
                "when.A: an object is a condition only as {\"not\": …}",
            ),
            (
                r#"{"not":{"not":[]}}"#,
                "when.A.not.not: the array is empty, so that the rule never holds",
            ),
        ] {
            assert_eq!(condition(json).unwrap_err(), message);
        }
    }
}
