//! A value of a rule in one of two forms: a text, or something longer.

use std::fmt;
use std::marker::PhantomData;

use cni::Object;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::template::Template;

/// A text, or a longer form.
#[derive(Clone, Debug)]
pub(crate) enum TextOr<T> {
    Text(Template),
    Longer(T),
}

/// A longer form than a text.
pub(crate) trait Longer {
    /// Both forms, for messages.
    const BOTH: &str;
}

impl Longer for Vec<Template> {
    const BOTH: &str = "a text or an array of texts";
}

impl Longer for Object {
    const BOTH: &str = "a text or an object";
}

impl<'de, T: Longer + Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Forms(PhantomData))
    }
}

struct Forms<T>(PhantomData<T>);

impl<'de, T: Longer + Deserialize<'de>> Visitor<'de> for Forms<T> {
    type Value = TextOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::BOTH)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<T>, E> {
        let template = Template::try_from(text.to_owned());
        template.map(TextOr::Text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<TextOr<T>, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(items)).map(TextOr::Longer)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<TextOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(TextOr::Longer)
    }
}
