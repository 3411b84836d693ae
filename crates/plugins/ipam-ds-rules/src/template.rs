//! A text of a rule, in which each `${FACT}` is replaced by the fact.

use ipam::Facts;
use serde::Deserialize;

use crate::fact_name::FactName;

const OPEN: &str = "${";
const CLOSE: char = '}';

/// A valid text of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Template(String);

impl TryFrom<String> for Template {
    /// The reason: `${` without `}`, or a fact that can't exist.
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut rest = text.as_str();
        while let Some((_, opened)) = rest.split_once(OPEN) {
            let (name, behind) = opened
                .split_once(CLOSE)
                .ok_or_else(|| format!("{text:?} has a ${{ without }}"))?;
            FactName::try_from(name.to_owned()).map_err(|why| format!("{text:?}: {why}"))?;
            rest = behind;
        }
        Ok(Self(text))
    }
}

impl Template {
    /// The text, if it contains no fact.
    pub(crate) fn literal(&self) -> Option<&str> {
        (!self.0.contains(OPEN)).then_some(&*self.0)
    }

    /// The parts of the text between the facts; at least one.
    fn parts(&self) -> impl Iterator<Item = &str> {
        let mut parts = self.0.split(OPEN);
        let first = parts.next();
        let others = parts.filter_map(|part| part.split_once(CLOSE));
        first.into_iter().chain(others.map(|(_, behind)| behind))
    }

    /// The names of the facts in the text.
    pub(crate) fn facts(&self) -> impl Iterator<Item = &str> {
        let opened = self.0.split(OPEN).skip(1);
        opened.filter_map(|part| Some(part.split_once(CLOSE)?.0))
    }

    /// The fewest bytes that the text can have: with facts that are empty.
    pub(crate) fn shortest(&self) -> usize {
        self.parts().map(str::len).sum()
    }

    /// True if some facts make this text of it.
    pub(crate) fn may_be(&self, text: &str) -> bool {
        let mut parts: Vec<&str> = self.parts().collect();
        let last = parts.pop().unwrap_or_default();
        let Some((first, between)) = parts.split_first() else {
            return text == last;
        };
        let (Some(mut rest), true) = (text.strip_prefix(first), text.len() >= self.shortest())
        else {
            return false;
        };
        for part in between {
            let Some((_, behind)) = rest.split_once(part) else {
                return false;
            };
            rest = behind;
        }
        rest.ends_with(last)
    }

    /// The text with each `${FACT}` replaced.
    ///
    /// # Errors
    ///
    /// The name of a fact that is missing.
    pub(crate) fn expand(&self, facts: &Facts) -> Result<String, &str> {
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
        let template = |text: &str| Template::try_from(text.to_owned()).unwrap();
        let expanded = template("${A}/${label:b}-${A}x")
            .expand(&facts)
            .map_err(str::to_owned);
        assert_eq!(expanded.as_deref(), Ok("1/${A}-1x"));
        assert_eq!(
            template("plain $ {} }").expand(&facts).as_deref(),
            Ok("plain $ {} }")
        );
        assert_eq!(template("${A}${MISSING}").expand(&facts), Err("MISSING"));
    }

    #[test]
    fn a_text_may_be_any_in_which_facts_fill_the_gaps() {
        let may_be = |template: &str, text: &str| {
            let template = Template::try_from(template.to_owned()).unwrap();
            template.may_be(text)
        };
        for (template, text) in [
            ("web", "web"),
            ("${A}", "web"),
            ("w${A}", "web"),
            ("${A}b", "web"),
            ("a-${A}-b-${A}", "a-1-b-1"),
            ("${A}${B}", ""),
        ] {
            assert!(may_be(template, text), "{template} {text}");
        }
        for (template, text) in [
            ("web", "web2"),
            ("x${A}", "web"),
            ("${A}x", "web"),
            ("ab${A}ba", "aba"),
            ("a-${A}-b-${A}", "a-1-c-1"),
        ] {
            assert!(!may_be(template, text), "{template} {text}");
        }
        let template = Template::try_from("ab${A}c".to_owned()).unwrap();
        assert_eq!(template.shortest(), 3);
    }

    #[test]
    fn a_text_that_can_never_be_expanded_is_refused() {
        let refused = |text: &str| Template::try_from(text.to_owned()).unwrap_err();
        assert_eq!(refused("a${B"), "\"a${B\" has a ${ without }");
        assert_eq!(refused("${}"), "\"${}\": the name of a fact is empty");
        assert!(refused("${x:}").contains("\"x:\" is no fact"));
    }
}
