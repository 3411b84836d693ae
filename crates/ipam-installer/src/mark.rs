//! Recognises what the installer has installed: an executable by the mark of its version, a JSON
//! file by the key `installedBy`.

use anyhow::{Result, ensure};
use memchr::memmem;
use plugin::VERSION_MARK;
use serde_json::{Map, Value};

/// Value of the key `installedBy`.
pub(crate) const INSTALLER: &str = "ipam-installer";

/// True for the content of an executable of this project, or of a JSON file that an installer has
/// written.
pub(crate) fn is_marked(content: &[u8]) -> bool {
    let file: Value = serde_json::from_slice(content).unwrap_or_default();
    file["installedBy"] == INSTALLER || memmem::find(content, VERSION_MARK.as_bytes()).is_some()
}

/// The text of a JSON object with the key `installedBy` at its start, and otherwise as it was.
///
/// # Errors
///
/// It is no JSON object, or has another value for the key.
pub(crate) fn marked(text: &str) -> Result<String> {
    let object: Map<String, Value> = serde_json::from_str(text)?;
    if let Some(value) = object.get("installedBy") {
        let is_marked = *value == INSTALLER;
        ensure!(is_marked, "the key installedBy is the installer's");
        return Ok(text.to_owned());
    }
    let (before, after) = text.split_once('{').unwrap_or_default();
    let comma = if object.is_empty() { "" } else { "," };
    let mark = format!("{{\n  \"installedBy\": \"{INSTALLER}\"");
    Ok([before, &mark, comma, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_object_keeps_its_spelling() {
        let text = "\n{ \"b\": 1.50,\n \"a\": {} }\n";
        let with = marked(text).unwrap();
        let expected = "\n{\n  \"installedBy\": \"ipam-installer\", \"b\": 1.50,\n \"a\": {} }\n";
        assert_eq!(with, expected);
        assert!(is_marked(with.as_bytes()) && !is_marked(text.as_bytes()));
        assert_eq!(marked(&with).unwrap(), with);
        assert!(is_marked(marked(" {} ").unwrap().as_bytes()));
    }

    #[test]
    fn what_cannot_be_marked_is_refused() {
        for text in ["[]", "{", "{\"installedBy\": \"me\"}", ""] {
            assert!(marked(text).is_err(), "{text}");
        }
        assert!(!is_marked(b"{\"installedBy\": \"me\"}"));
    }
}
