//! A condition of a rule on a fact.

use serde::Deserialize;
use wildmatch::WildMatch;

/// Characters of a text that make it a pattern.
const WILDCARDS: [char; 2] = ['*', '?'];

/// A condition on a fact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "no condition: neither a text, an array, {\"not\": …} nor null"
)]
pub(crate) enum Condition {
    /// A text: the fact matches it. `*` matches any characters, and `?` matches one.
    Text(String),
    /// `null`: the fact is missing.
    Missing,
    /// An array: at least one of these conditions holds.
    Any(Vec<Condition>),
    /// `{"not": …}`: this condition doesn't hold. A missing fact matches no text.
    Not(Negation),
}

/// The object `{"not": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Negation {
    not: Box<Condition>,
}

impl Condition {
    /// True if the condition holds for the fact; `None` means that the fact is missing.
    pub(crate) fn holds(&self, fact: Option<&str>) -> bool {
        match self {
            Self::Missing => fact.is_none(),
            Self::Text(pattern) => fact.is_some_and(|fact| matches(pattern, fact)),
            Self::Any(all) => all.iter().any(|condition| condition.holds(fact)),
            Self::Not(negation) => !negation.not.holds(fact),
        }
    }

    /// True or false if the condition holds for every fact, or for none; `None` if it may depend on the
    /// fact.
    pub(crate) fn holds_for_any(&self) -> Option<bool> {
        match self {
            Self::Missing | Self::Text(_) => None,
            Self::Any(all) => {
                let mut each = all.iter().map(Self::holds_for_any);
                each.try_fold(false, |one, holds| Some(one || holds?))
            }
            Self::Not(negation) => negation.not.holds_for_any().map(|holds| !holds),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let condition: Condition = serde_json::from_str(json).unwrap();
            for fact in holds {
                assert!(condition.holds(*fact), "{json} {fact:?}");
            }
            for fact in fails {
                assert!(!condition.holds(*fact), "{json} {fact:?}");
            }
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for json in [
            "7",
            r#"["a",true]"#,
            r#"{"is":"a"}"#,
            r#"{"not":"a","is":"b"}"#,
            "{}",
            r#"{"not":{"not":{}}}"#,
        ] {
            let error = serde_json::from_str::<Condition>(json).unwrap_err();
            assert!(error.to_string().starts_with("no condition: "), "{error}");
        }
    }
}
