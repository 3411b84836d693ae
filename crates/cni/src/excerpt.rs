//! Foreign text in messages: in one line, and not too long.

use std::fmt::{self, Write as _};

use crate::without_secrets;

/// Displays bytes as text in one line: control characters are escaped, and secrets are
/// masked ([`without_secrets`]).
pub struct OneLine<'a>(pub &'a [u8]);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.0);
        for c in without_secrets(&text).trim_end().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Displays the first 200 characters of a text in one line, without secrets.
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 200;
        // Before it is cut: the mark that shows a secret may be behind the cut.
        let text = without_secrets(self.0);
        match text.char_indices().nth(MOST) {
            None => OneLine(text.as_bytes()).fmt(f),
            Some((end, _)) => {
                OneLine(&text.as_bytes()[..end]).fmt(f)?;
                write!(f, "… ({} bytes)", self.0.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_become_one() {
        assert_eq!(
            OneLine(b"{\n\t\"a\": \"\xff\x1b\"\n}\n").to_string(),
            "{\\n\\t\"a\": \"\u{fffd}\\u{1b}\"\\n}"
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = "é".repeat(300);
        assert_eq!(
            Excerpt(&text).to_string(),
            format!("{}… (600 bytes)", "é".repeat(200))
        );
    }
}
