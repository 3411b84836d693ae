//! Assertions about texts, which print the whole text when they fail.

/// Asserts that a text has all of these parts.
#[track_caller]
pub fn assert_has(text: &str, parts: impl IntoIterator<Item = impl AsRef<str>>) {
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}
