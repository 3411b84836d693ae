//! Masks passwords in text that is shown: in messages, in logs, on a screen.

use std::borrow::Cow;

/// Replacement of a secret.
const MASK: &str = "…";

/// Bytes of a URL and of a JSON key that are looked at: so the work stays linear.
const LONGEST: usize = 4096;

/// The text without the user and the password of a URL (`http://…@host`), and without the
/// value of a JSON key whose name contains `password`. JSON stays valid JSON.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    // Same length, so that indexes are the text's.
    let lower = text.to_ascii_lowercase();
    let urls = text.match_indices("://");
    let urls = urls.filter_map(|(at, separator)| in_url(text, at + separator.len()));
    let keys = lower.match_indices("password");
    let keys = keys.filter_map(|(at, _)| in_json(text, at));
    let mut secrets: Vec<(usize, usize)> = urls.chain(keys).collect();
    secrets.sort_unstable();
    let (mut masked, mut shown) = (String::new(), 0);
    for (start, end) in secrets {
        // A password may look like a URL.
        if start >= shown {
            masked.push_str(&text[shown..start]);
            masked.push_str(MASK);
            shown = end;
        }
    }
    if shown == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[shown..]);
    Cow::Owned(masked)
}

/// The user and the password in the URL whose host would begin here.
fn in_url(text: &str, start: usize) -> Option<(usize, usize)> {
    let url = string_at(text, start, LONGEST);
    let length = url.rfind('@')?;
    (url[..length] != *MASK).then_some((start, start + length))
}

/// The value of the JSON key that this is in.
fn in_json(text: &str, at: usize) -> Option<(usize, usize)> {
    let key_end = at + string_at(text, at, LONGEST).len();
    let value = text[key_end..].strip_prefix('"')?.trim_start();
    let value = value.strip_prefix(':')?.trim_start();
    let value = value.strip_prefix('"')?;
    let start = text.len() - value.len();
    let secret = string_at(text, start, usize::MAX);
    (!secret.is_empty() && secret != MASK).then_some((start, start + secret.len()))
}

/// The text from here to the quotation mark or the line break that ends a string.
fn string_at(text: &str, start: usize, longest: usize) -> &str {
    let text = &text[start..];
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if at >= longest => return &text[..at],
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' | '\n' => return &text[..at],
            _ => {}
        }
    }
    text
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
