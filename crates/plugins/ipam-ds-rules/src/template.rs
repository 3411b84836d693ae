//! A text of a rule, in which each `${FACT}` is replaced by the fact.

use serde::Deserialize;

use crate::facts::{FactName, Facts};

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
    fn a_text_that_can_never_be_expanded_is_refused() {
        let refused = |text: &str| Template::try_from(text.to_owned()).unwrap_err();
        assert_eq!(refused("a${B"), "\"a${B\" has a ${ without }");
        assert_eq!(refused("${}"), "\"${}\": the name of a fact is empty");
        assert!(refused("${x:y}").contains("\"x:y\" is no fact"));
    }
}
