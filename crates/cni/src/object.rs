//! A JSON object that preserves the order and the text of its members.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::{Error, Excerpt, without_secrets};

/// A JSON object that preserves its members: their order, the spelling of numbers,
/// unknown keys.
///
/// Of a key that occurs twice, the last value counts, as with Go's `encoding/json`.
///
/// ```
/// # use cni::Object;
/// let mut object: Object = serde_json::from_str(r#"{"b": 1.50, "a": {"z": [ ]}}"#).unwrap();
/// object.set("c", &true);
/// assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"b":1.50,"a":{"z": [ ]},"c":true}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(String, Box<RawValue>)>,
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `key`, as it was written.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.members
            .iter()
            .rfind(|(k, _)| k == key)
            .map(|(_, value)| &**value)
    }

    /// The value of `key` as a `T`; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// Code 7 if the value is something else; it names the key, as `path.key`
    /// (or `key`, with an empty path), and the value.
    pub fn read<T: DeserializeOwned>(&self, path: &str, key: &str) -> Result<Option<T>, Error> {
        match self.get(key) {
            // The path is made only for a message: a catalogue of rules has thousands of keys.
            Some(raw) if raw.get() != "null" => serde_json::from_str(raw.get())
                .or_else(|_| read(&join(path, key), raw))
                .map(Some),
            _ => Ok(None),
        }
    }

    /// The absolute path in `key`; `None` where it is missing, `null` or empty.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for a relative path: it would lead elsewhere
    /// from another working directory.
    pub fn absolute_path(&self, path: &str, key: &str) -> Result<Option<PathBuf>, Error> {
        let text: Option<String> = self.read(path, key)?;
        match text.filter(|text| !text.is_empty()) {
            Some(text) if !text.starts_with('/') => Err(Error::config(format!(
                "{}: {text:?} is not an absolute path",
                join(path, key)
            ))),
            text => Ok(text.map(PathBuf::from)),
        }
    }

    /// The duration in `key`: a number of seconds, or a text such as `1m 30s`; `None` where it is
    /// missing or `null`.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for anything but a duration of more than 0 and at most
    /// a day: nobody waits longer, and a clock can't be set beyond its end.
    pub fn duration(&self, path: &str, key: &str) -> Result<Option<Duration>, Error> {
        const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let Some(value) = self.read::<Value>(path, key)? else {
            return Ok(None);
        };
        let duration = match &value {
            Value::Number(seconds) => {
                let seconds = seconds.as_f64().unwrap_or_default();
                Duration::try_from_secs_f64(seconds).ok()
            }
            Value::String(text) => humantime::parse_duration(text).ok(),
            _ => None,
        };
        match duration {
            Some(duration) if !duration.is_zero() && duration <= A_DAY => Ok(Some(duration)),
            _ => Err(Error::config(format!(
                "{}: {value} is neither a number of seconds nor a text such as \"30s\", of more than 0 \
                 and at most a day",
                join(path, key)
            ))),
        }
    }

    /// Gives `key` this value, in its place or at the end.
    ///
    /// # Panics
    ///
    /// If JSON can't express `value`, such as a map whose keys aren't strings.
    pub fn set<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.set_raw(key, to_raw_value(value).expect("the value is JSON"));
    }

    /// Gives `key` this value, in its place or at the end.
    pub fn set_raw(&mut self, key: &str, value: Box<RawValue>) {
        let mut found = false;
        // Every occurrence: a reader that takes the first and one that takes
        // the last must see the same.
        for (_, old) in self.members.iter_mut().filter(|(k, _)| k == key) {
            old.clone_from(&value);
            found = true;
        }
        if !found {
            self.members.push((key.to_owned(), value));
        }
    }

    /// Removes the keys of which `is_kept` is false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.members.retain(|(key, _)| is_kept(key));
    }

    /// Removes a key. A missing one is no error.
    pub fn remove(&mut self, key: &str) {
        self.members.retain(|(k, _)| k != key);
    }

    /// The members in the order in which they were written; a key may occur twice.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.members
            .iter()
            .map(|(key, value)| (key.as_str(), &**value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(key, _)| key.as_str())
    }
}

/// True if Go's decoder reads this key as that field: they differ at most in their cases. Two
/// letters beyond ASCII count as one of ASCII (Unicode's simple case folding).
pub(crate) fn is_spelling(key: &str, field: &str) -> bool {
    let folded = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => letter.to_ascii_lowercase(),
    };
    key.chars().map(folded).eq(field.chars().map(folded))
}

/// Reads a value; `path` is its name in messages.
///
/// # Errors
///
/// Code 7, naming the innermost key that is wrong, and its value.
pub fn read<T: DeserializeOwned>(path: &str, raw: &RawValue) -> Result<T, Error> {
    serde_json::from_str(raw.get()).or_else(|_| {
        // Again, now with the path to the wrong value. Slower, and only on failure.
        let json = &mut serde_json::Deserializer::from_str(raw.get());
        serde_path_to_error::deserialize(json).map_err(|error| {
            let inner = error.path().to_string();
            let at = if inner == "." {
                path.to_owned()
            } else {
                join(path, &inner)
            };
            let reason = error.inner().to_string();
            // The message has the path; the position within the value says no more.
            let reason = reason
                .rsplit_once(" at line ")
                .map_or(&*reason, |(start, _)| start);
            Error::config(format!("{at}: {}", without_secrets(reason)))
                .with_details(format!("{path} is {}", Excerpt(raw.get())))
        })
    })
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() || key.starts_with('[') {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (key, value) in &self.members {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object { members })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(json: &str) -> Object {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_duration_is_a_number_of_seconds_or_a_text_and_at_most_a_day() {
        let of = |value: &str| object(&format!(r#"{{"t":{value}}}"#)).duration("ipam", "t");
        for (value, milliseconds) in [
            ("0.25", 250),
            ("86400", 86_400_000),
            (r#""1m 30s""#, 90_000),
            (r#""1500ms""#, 1500),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(of(value), Ok(Some(duration)), "{value}");
        }
        assert_eq!(of("null"), Ok(None));
        for value in [
            "0",
            "-1",
            "86401",
            "1e19",
            "1e400",
            "[1]",
            "true",
            r#""""#,
            r#""30""#,
            r#""soon""#,
            r#""0s""#,
            r#""25h""#,
            r#""5000000y""#,
        ] {
            let error = of(value).unwrap_err();
            assert_eq!(error.code, crate::code::INVALID_CONFIG, "{value}");
            assert!(error.msg.starts_with("ipam.t: "), "{error}");
        }
    }

    fn text(object: &Object) -> String {
        serde_json::to_string(object).unwrap()
    }

    #[test]
    fn setting_a_key_leaves_every_other_byte_alone() {
        let mut parsed =
            object(r#"{"z":1e400,"a":{"y":[1.0,  2]},"prevResult":{"old":1},"n":-0.0}"#);
        parsed.set("prevResult", &object(r#"{"new":12345678901234567890123}"#));
        assert_eq!(
            text(&parsed),
            r#"{"z":1e400,"a":{"y":[1.0,  2]},"prevResult":{"new":12345678901234567890123},"n":-0.0}"#
        );
    }

    #[test]
    fn of_a_key_that_occurs_twice_the_last_one_counts() {
        let mut parsed = object(r#"{"a":1,"b":2,"a":3}"#);
        assert_eq!(parsed.get("a").unwrap().get(), "3");
        parsed.set("a", &4);
        assert_eq!(text(&parsed), r#"{"a":4,"b":2,"a":4}"#);
        parsed.remove("a");
        assert_eq!(text(&parsed), r#"{"b":2}"#);
    }

    #[test]
    fn an_error_names_the_innermost_key_and_shows_the_value() {
        let parsed = object(r#"{"delegates":["a",{"b":5}]}"#);
        let error = parsed.read::<Vec<String>>("ipam", "delegates").unwrap_err();
        assert_eq!(error.code, crate::code::INVALID_CONFIG);
        assert_eq!(
            error.msg,
            "ipam.delegates[1]: invalid type: map, expected a string"
        );
        assert_eq!(error.details, r#"ipam.delegates is ["a",{"b":5}]"#);
        let error = object(r#"{"a":5}"#).read::<String>("", "a").unwrap_err();
        assert_eq!(error.msg, "a: invalid type: integer `5`, expected a string");
    }

    #[test]
    fn a_relative_path_is_refused_and_an_empty_one_is_none() {
        let parsed = object(r#"{"a":"/x","b":"x/y","c":"","d":null}"#);
        let path = |key| parsed.absolute_path("ipam", key);
        assert_eq!(path("a"), Ok(Some("/x".into())));
        assert_eq!(
            (path("c"), path("d"), path("e")),
            (Ok(None), Ok(None), Ok(None))
        );
        let error = path("b").unwrap_err();
        assert_eq!(error.code, crate::code::INVALID_CONFIG);
        assert_eq!(error.msg, "ipam.b: \"x/y\" is not an absolute path");
    }

    #[test]
    fn null_reads_as_missing() {
        assert_eq!(object(r#"{"a":null}"#).read::<String>("", "a"), Ok(None));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for json in ["[]", "null", "1", "\"a\"", "{", "{\"a\":1}x", ""] {
            assert!(serde_json::from_str::<Object>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn an_excerpt_is_one_line_of_bounded_length() {
        assert_eq!(Excerpt("a\nb").to_string(), "a\\nb");
        assert_eq!(
            Excerpt(&"x".repeat(1000)).to_string(),
            format!("{}… (1000 bytes)", "x".repeat(200))
        );
    }

    proptest! {
        #[test]
        fn any_member_survives_the_setting_of_another(
            keys in proptest::collection::vec("[a-zä\\\\\"]{0,6}", 0..8),
            numbers in proptest::collection::vec("-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?", 8),
        ) {
            let members: Vec<String> = keys
                .iter()
                .zip(&numbers)
                .map(|(k, n)| format!("{}:{n}", serde_json::to_string(k).unwrap()))
                .collect();
            let mut parsed = object(&format!("{{{}}}", members.join(",")));
            parsed.set("prevResult", &1);
            let expected: Vec<String> =
                members.iter().cloned().chain(["\"prevResult\":1".to_owned()]).collect();
            prop_assert_eq!(text(&parsed), format!("{{{}}}", expected.join(",")));
        }
    }
}
