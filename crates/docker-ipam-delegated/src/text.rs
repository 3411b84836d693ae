//! Values that stand in JSON as the text that they are displayed as, such as subnets.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes a value as text.
pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Reads a value from text.
pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(from)?;
    text.parse()
        .map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
}

/// The same for a value that may be missing, which is `null`.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Display, Error, FromStr, Serializer};

    /// Writes a value as text, or `null`.
    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    /// Reads a value from text, or from `null`.
    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        let parse = |text: String| {
            let value = text.parse();
            value.map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
        };
        text.map(parse).transpose()
    }
}
