//! Masks passwords in text that is shown: in messages, in logs, on a screen.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex_lite::Regex;

/// Replacement of a secret.
const MASK: &str = "…";

/// The start of a URL, and its user and password: up to the last `@` of a line or a JSON string.
static URL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"://(?:[^"\n\\]|\\.)*@"#).expect("it is a pattern"));

/// A JSON key whose name contains `password`, with its value, which may be cut off.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?i)(password(?:[^"\n\\]|\\.)*"\s*:\s*")(?:[^"\n\\]|\\.)+"#;
    Regex::new(pattern).expect("it is a pattern")
});

/// The text without the user and the password of a URL (`http://…@host`), and without the
/// value of a JSON key whose name contains `password`. JSON stays valid JSON.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    // The search is slow, and few texts need it.
    if !text.contains("://") && !text.to_ascii_lowercase().contains("password") {
        return text.into();
    }
    // A password may look like a URL, so it goes first.
    let without_keys = KEY.replace_all(text, format!("${{1}}{MASK}"));
    let masked = match URL.replace_all(&without_keys, format!("://{MASK}@")) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    };
    masked.map_or(without_keys, Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_and_of_json_keys_are_masked() {
        for (text, shown) in [
            ("http://u:p@a:1 is wrong", "http://…@a:1 is wrong"),
            (r#""http://u:p@q/@a" "x@y""#, r#""http://…@a" "x@y""#),
            (
                r#"["http://u:a\"b@a","https://v:q@b"]"#,
                r#"["http://…@a","https://…@b"]"#,
            ),
            (
                r#"{"passwordFile" : "hun\"ter2","b":1}"#,
                r#"{"passwordFile" : "…","b":1}"#,
            ),
            (r#"{"PASSWORD":"x"#, r#"{"PASSWORD":"…"#),
            (
                r#"{"password":"","a":["http://…@a"]}"#,
                r#"{"password":"","a":["http://…@a"]}"#,
            ),
        ] {
            assert_eq!(without_secrets(text), shown, "{text}");
            assert_eq!(without_secrets(shown), shown);
        }
    }

    #[test]
    fn other_text_is_left_as_it_is() {
        for text in [
            "",
            "http://a:1",
            "mail a@b",
            "no password: none",
            "password\": 7",
        ] {
            assert!(matches!(without_secrets(text), Cow::Borrowed(same) if same == text));
        }
    }
}
