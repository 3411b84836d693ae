use serde::Deserialize;

/// The name of a fact, in a condition or a template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct FactName(String);

impl FactName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for FactName {
    /// The reason why no fact can have this name.
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.split_once(':') {
            None if name.is_empty() => Err("the name of a fact is empty".to_owned()),
            Some((family, key)) if family.is_empty() || key.is_empty() || key == "*" => Err(
                format!("{name:?} is no fact: one of a family is written as label:KEY"),
            ),
            _ => Ok(Self(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_fact_can_have_are_accepted() {
        for name in [
            "K8S_POD_NAME",
            "label:app",
            "annotation:a/b:c",
            "node-label:rack",
            "annotation",
        ] {
            assert!(FactName::try_from(name.to_owned()).is_ok(), "{name}");
        }
        for name in ["", "label:", ":x", "label:*"] {
            assert!(FactName::try_from(name.to_owned()).is_err(), "{name}");
        }
    }
}
