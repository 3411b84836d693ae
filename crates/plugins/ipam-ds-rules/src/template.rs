//! A text of a rule, in which each `${FACT}` is replaced by the fact.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::facts::{self, Facts};

const OPEN: &str = "${";
const CLOSE: char = '}';

/// A valid text of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Template<'a>(#[serde(borrow)] Cow<'a, str>);

impl Template<'_> {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// The reason: `${` without `}`, or a fact that can't exist.
    pub(crate) fn read(text: String) -> Result<Self, String> {
        let mut rest = text.as_str();
        while let Some((_, opened)) = rest.split_once(OPEN) {
            let (name, behind) = opened
                .split_once(CLOSE)
                .ok_or_else(|| format!("{text:?} has a ${{ without }}"))?;
            facts::verify_name(name).map_err(|why| format!("{text:?}: {why}"))?;
            rest = behind;
        }
        Ok(Self(text.into()))
    }

    /// The text, if it contains no fact.
    pub(crate) fn literal(&self) -> Option<&str> {
        (!self.0.contains(OPEN)).then_some(&*self.0)
    }

    /// The names of the facts in it.
    pub(crate) fn facts(&self) -> impl Iterator<Item = &str> {
        let opened = self.0.split(OPEN).skip(1);
        opened.filter_map(|opened| Some(opened.split_once(CLOSE)?.0))
    }

    /// The text as it is configured.
    pub(crate) fn as_written(&self) -> &str {
        &self.0
    }

    /// The text with each `${FACT}` replaced.
    ///
    /// # Errors
    ///
    /// The name of a fact that is missing.
    pub(crate) fn expand(&self, facts: &Facts) -> Result<String, String> {
        let mut expanded = String::new();
        let mut rest = &*self.0;
        while let Some((before, opened)) = rest.split_once(OPEN) {
            let (name, behind) = opened.split_once(CLOSE).unwrap_or((opened, ""));
            expanded += before;
            expanded += facts.get(name).ok_or(name)?;
            rest = behind;
        }
        Ok(expanded + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_replace_their_placeholders() {
        let facts: Facts = [("A", "1"), ("label:b", "${A}")].into_iter().collect();
        let expand = |text: &str| Template::read(text.to_owned()).unwrap().expand(&facts);
        assert_eq!(expand("${A}/${label:b}-${A}x").as_deref(), Ok("1/${A}-1x"));
        assert_eq!(expand("plain $ {} }").as_deref(), Ok("plain $ {} }"));
        assert_eq!(expand("${A}${MISSING}"), Err("MISSING".to_owned()));
        let template = Template::read("${A}/${label:b}-}x".to_owned()).unwrap();
        assert_eq!(template.facts().collect::<Vec<_>>(), ["A", "label:b"]);
    }

    #[test]
    fn a_text_that_can_never_be_expanded_is_refused() {
        let refused = |text: &str| Template::read(text.to_owned()).unwrap_err();
        assert_eq!(refused("a${B"), "\"a${B\" has a ${ without }");
        assert_eq!(refused("${}"), "\"${}\": the name of a fact is empty");
        assert!(refused("${x:y}").contains("\"x:y\" is no fact"));
    }
}
