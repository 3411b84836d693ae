//! JSON values to replace others with, including those that JSON parsers disagree about.

use bolero::TypeGenerator;
use serde_json::{Value, json};

use crate::Word;

/// A JSON value.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Fragment {
    /// `null`.
    Null,
    /// `true` or `false`.
    Truth(bool),
    /// A number.
    Number(i64),
    /// A string.
    Text(Word),
    /// `[]`.
    List,
    /// An array of one string.
    Listed(Word),
    /// `{}`.
    Object,
    /// An object with one member.
    Member(Word, Word),
    /// JSON that [`Value`] can't hold.
    Beyond(u8),
}

/// Start of the placeholder of a [`Fragment::Beyond`] in a [`Value`].
const MARK: &str = "\u{e000}beyond";

impl Fragment {
    /// The fragment as a value.
    pub fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Truth(it) => json!(it),
            Self::Number(it) => json!(it),
            Self::Text(word) => json!(word.text()),
            Self::List => json!([]),
            Self::Listed(word) => json!([word.text()]),
            Self::Object => json!({}),
            Self::Member(key, word) => json!({ key.text(): word.text() }),
            Self::Beyond(index) => json!(format!("{MARK}{}", usize::from(*index) % 8)),
        }
    }

    /// The value as JSON, with placeholders replaced.
    pub fn json(value: &Value) -> Vec<u8> {
        let mut text = value.to_string();
        if text.contains(MARK) {
            for index in 0..8 {
                text = text.replace(&format!("\"{MARK}{index}\""), &beyond(index));
            }
        }
        text.into_bytes()
    }
}

/// JSON, all of it valid or nearly so, that parsers disagree about.
fn beyond(index: usize) -> String {
    match index {
        0 => "1e400".to_owned(),
        1 => "123456789012345678901234567890".to_owned(),
        2 => "-0.0".to_owned(),
        3 => r#""\ud800""#.to_owned(),
        4 => format!("{}{}", "[".repeat(200), "]".repeat(200)),
        5 => r#"{"a":1,"a":{"b":[]},"\u0061":null}"#.to_owned(),
        6 => " \t1.50\n".to_owned(),
        _ => format!("{}1{}", r#"{"a":"#.repeat(130), "}".repeat(130)),
    }
}
