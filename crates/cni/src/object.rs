use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::{Error, Excerpt, is_field, without_secrets};

/// A JSON object that preserves its members: their order, the spelling of numbers,
/// unknown keys.
///
/// Its keys are fields, which are found as Go's decoder finds them ([`crate::is_field`]). Of a key
/// that occurs twice, the last value counts. Two spellings of one field are refused
/// ([`Self::field`]). The keys of a user's map are found by [`Self::read_exact`].
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
    /// True if the last spelling of a field counts, and several are no error.
    is_lenient: bool,
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same object, of which the last spelling of a field counts: for DEL and GC, which a
    /// mistake in the configuration must not prevent.
    #[must_use]
    pub(crate) fn lenient(self) -> Self {
        Self {
            is_lenient: true,
            ..self
        }
    }

    /// True if the last spelling of a field counts.
    pub(crate) fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// The value of `key`, as it was written; of its last spelling.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        let mut members = self.members.iter();
        let (_, value) = members.rfind(|(k, _)| is_field(k, key))?;
        Some(value)
    }

    /// The value of `key`, as it was written; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// Code 7 for two spellings of the key with different values, naming both: Go's decoder would
    /// merge the values. Equal ones are no error, since libcni adds `name` to a plugin's `Name`.
    pub fn field(&self, path: &str, key: &str) -> Result<Option<&RawValue>, Error> {
        let mut spellings = self.members.iter().filter(|(k, _)| is_field(k, key));
        let Some((mut last, mut value)) = spellings.next().map(|(k, value)| (k, value)) else {
            return Ok(None);
        };
        for (spelling, later) in spellings {
            if spelling != last && later.get() != value.get() && !self.is_lenient {
                return Err(Error::config(format!(
                    "{} is there as {spelling:?}, too; write one of the two",
                    join(path, last)
                )));
            }
            (last, value) = (spelling, later);
        }
        Ok(Some(&**value).filter(|raw| raw.get() != "null"))
    }

    /// The value of `key` as a `T`; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// Code 7 for two spellings of the key, and if the value is something else; it names the key, as
    /// `path.key` (or `key`, with an empty path), and the value.
    pub fn read<T: DeserializeOwned>(&self, path: &str, key: &str) -> Result<Option<T>, Error> {
        let value = self.field(path, key)?;
        value.map(|raw| read_member(path, key, raw)).transpose()
    }

    /// The value of `key`, which must be there.
    ///
    /// # Errors
    ///
    /// As [`Self::read`], and code 7 if it is missing or `null`.
    pub fn required<T: DeserializeOwned>(&self, path: &str, key: &str) -> Result<T, Error> {
        let missing = || Error::config(format!("{} is missing", join(path, key)));
        self.read(path, key)?.ok_or_else(missing)
    }

    /// The object in `key`; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn section(&self, path: &str, key: &str) -> Result<Option<Self>, Error> {
        let section = self.read::<Self>(path, key)?;
        Ok(section.map(|section| Self {
            is_lenient: self.is_lenient,
            ..section
        }))
    }

    /// The value of exactly this key as a `T`: of an object whose keys a user has chosen, or that is
    /// read so by libcni; `None` where it is missing or `null`.
    ///
    /// # Errors
    ///
    /// Code 7 if the value is something else.
    pub fn read_exact<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
    ) -> Result<Option<T>, Error> {
        let member = self.members.iter().rfind(|(k, _)| k == key);
        let value = member.filter(|(_, raw)| raw.get() != "null");
        value
            .map(|(_, raw)| read_member(path, key, raw))
            .transpose()
    }

    /// Refuses keys that are none of these fields.
    ///
    /// # Errors
    ///
    /// Code 7, naming the first one and the fields.
    pub fn expect_only(&self, path: &str, fields: &[&str]) -> Result<(), Error> {
        let is_known = |key: &str| fields.iter().any(|field| is_field(key, field));
        match self.keys().find(|key| !is_known(key)) {
            None => Ok(()),
            Some(key) => Err(Error::config(format!(
                "{}: there is no such key, only {}",
                join(path, key),
                fields.join(", ")
            ))),
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
    /// Code 7, naming the key and the value, for anything but a duration of a millisecond to a
    /// day: in less, nothing is done, nobody waits longer, and a clock can't be set beyond its end.
    pub fn duration(&self, path: &str, key: &str) -> Result<Option<Duration>, Error> {
        const BOUNDS: RangeInclusive<Duration> =
            Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);
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
            Some(duration) if BOUNDS.contains(&duration) => Ok(Some(duration)),
            _ => Err(Error::config(format!(
                "{}: {value} is neither a number of seconds nor a text such as \"30s\", of a \
                 millisecond to a day",
                join(path, key)
            ))),
        }
    }

    /// Gives `key` this value, in its place or at the end. Of several spellings, none is left.
    ///
    /// # Panics
    ///
    /// If JSON can't express `value`, such as a map whose keys aren't strings.
    pub fn set<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.set_raw(key, to_raw_value(value).expect("the value is JSON"));
    }

    /// [`Self::set`], with a value that is JSON already.
    pub fn set_raw(&mut self, key: &str, value: Box<RawValue>) {
        let mut new = Some((key.to_owned(), value));
        self.members.retain_mut(|member| {
            if !is_field(&member.0, key) {
                return true;
            }
            let first = new.take();
            first.map(|new| *member = new).is_some()
        });
        self.members.extend(new);
    }

    /// Removes the keys of which `is_kept` is false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.members.retain(|(key, _)| is_kept(key));
    }

    /// Adds a member behind the others, also in a second spelling of a key.
    pub fn append(&mut self, key: &str, value: &RawValue) {
        self.members.push((key.to_owned(), value.to_owned()));
    }

    /// Removes a key, in all spellings. A missing one is no error.
    pub fn remove(&mut self, key: &str) {
        self.members.retain(|(k, _)| !is_field(k, key));
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

/// Reads the value of a key. The path is made only for a message: a catalogue of rules has thousands
/// of keys.
fn read_member<T: DeserializeOwned>(path: &str, key: &str, raw: &RawValue) -> Result<T, Error> {
    serde_json::from_str(raw.get()).or_else(|_| read(&join(path, key), raw))
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
        serializer.collect_map(self.iter())
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
                let mut object = Object::new();
                while let Some(member) = map.next_entry()? {
                    object.members.push(member);
                }
                Ok(object)
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
            ("0.001", 1),
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
            "1e-9",
            r#""999us""#,
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
        assert_eq!(text(&parsed), r#"{"a":4,"b":2}"#);
        parsed.remove("a");
        assert_eq!(text(&parsed), r#"{"b":2}"#);
    }

    #[test]
    fn a_field_is_found_in_any_case_and_a_key_of_a_map_in_its_own() {
        let parsed = object(r#"{"DATADIR":"/x","pool":1,"Pool":2}"#);
        assert_eq!(parsed.read("ipam", "dataDir"), Ok(Some("/x".to_owned())));
        assert_eq!(parsed.read_exact::<u8>("ipam", "dataDir"), Ok(None));
        assert_eq!(parsed.read_exact("ipam", "Pool"), Ok(Some(2)));
        assert_eq!(parsed.read_exact("ipam", "pool"), Ok(Some(1)));
        let error = parsed.read::<u8>("ipam", "pool").unwrap_err();
        assert_eq!(error.code, crate::code::INVALID_CONFIG);
        assert_eq!(
            error.msg,
            "ipam.pool is there as \"Pool\", too; write one of the two"
        );
        let lenient = parsed.lenient();
        assert_eq!(lenient.read("ipam", "pool"), Ok(Some(2)));
        assert_eq!(object(r#"{"a":1,"A":1}"#).read("", "a"), Ok(Some(1)));
        let nested = object(r#"{"S":{"a":1,"A":2}}"#);
        assert!(
            nested
                .section("", "s")
                .unwrap()
                .unwrap()
                .read::<u8>("s", "a")
                .is_err()
        );
        let section = nested.lenient().section("", "s").unwrap().unwrap();
        assert_eq!(section.read("s", "a"), Ok(Some(2)));
    }

    #[test]
    fn what_is_set_is_there_in_one_spelling() {
        let mut parsed = object(r#"{"x":0,"PrevResult":1,"prevresult":2,"y":3}"#);
        parsed.set("prevResult", &4);
        assert_eq!(text(&parsed), r#"{"x":0,"prevResult":4,"y":3}"#);
        parsed.remove("PREVRESULT");
        assert_eq!(text(&parsed), r#"{"x":0,"y":3}"#);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let fields = ["pools", "rules"];
        assert!(object(r#"{"Pools":1}"#).expect_only("f", &fields).is_ok());
        let error = object(r#"{"pool":1}"#).expect_only("f", &fields);
        assert_eq!(
            error.unwrap_err().msg,
            "f.pool: there is no such key, only pools, rules"
        );
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
