//! Output: text for people, without a file's control characters, or JSON for programs.

pub(crate) mod table;
pub(crate) mod times;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;
use shlex::Quoter;

use crate::Context;

impl Context<'_> {
    /// Prints the value as JSON, or these lines for people.
    pub(crate) fn print<L: IntoIterator<Item: AsRef<str>>>(
        &self,
        value: &impl Serialize,
        lines: impl FnOnce() -> L,
    ) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        if self.json {
            serde_json::to_writer_pretty(&mut out, value)?;
            out.write_all(b"\n")?;
        } else {
            for line in lines() {
                out.write_all(plain(line.as_ref()).as_bytes())?;
                out.write_all(b"\n")?;
            }
        }
        out.flush()
    }
}

/// The items in one text.
pub(crate) fn joined<T: Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(separator)
}

/// The text, or another one in the place of an empty one.
pub(crate) fn non_empty_or(text: String, none: &str) -> String {
    if text.is_empty() { none.into() } else { text }
}

/// The value as text, or another text if it is missing.
pub(crate) fn text_or(value: &Option<impl Display>, missing: &str) -> String {
    let text = value.as_ref().map(ToString::to_string);
    text.unwrap_or_else(|| missing.to_owned())
}

/// True for a control character, which a file may use against the terminal, and for one that changes
/// the direction of the text.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// True if the text is printed as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(is_unprintable)
}

/// The text without control characters and characters that change its direction.
fn plain(text: &str) -> Cow<'_, str> {
    // A long list has millions of bytes, and nearly all of it is visible ASCII.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        text.into()
    } else {
        text.replace(is_unprintable, "\u{fffd}").into()
    }
}

/// The words with quotes where a shell needs them, separated by spaces.
pub(crate) fn quoted(words: &[Cow<'_, str>]) -> String {
    let quoter = Quoter::new().allow_nul(true);
    let quoted = quoter.join(words.iter().map(|word| &**word));
    quoted.expect("only a NUL can't be quoted")
}

/// Prints a line on stderr.
pub(crate) fn warn(line: impl Display) {
    eprintln!("ipamctl: {}", plain(&line.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_dont_reach_the_terminal() {
        assert_eq!(plain("web-1"), "web-1");
        assert_eq!(plain("a\x07b"), "a\u{fffd}b");
        assert_eq!(plain("\x1b[31mred\u{202e}"), "\u{fffd}[31mred\u{fffd}");
    }
}
