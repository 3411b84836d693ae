//! Output: text for people, fitted to the terminal, or JSON for programs.

pub(crate) mod confirmation;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod times;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use cni::Environment;
use serde::Serialize;

/// Style of a piece of text on a terminal: the parameter of the escape sequence (ECMA-48, SGR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Destination and form of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// True for JSON.
    pub(crate) json: bool,
    /// Columns of the terminal; `None` if stdout is no terminal.
    pub(crate) width: Option<usize>,
    colour: bool,
}

impl Output {
    /// The output of this process. `NO_COLOR` (no-color.org) turns colours off, if it is
    /// not empty; `COLUMNS` overrides the width.
    pub(crate) fn of_process(json: bool, environment: &Environment) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let no_colour = !environment.text("NO_COLOR").is_empty();
        let columns = environment.text("COLUMNS").parse().ok();
        let of_terminal = || {
            let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
            Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
        };
        Self {
            json,
            width: columns.or_else(|| of_terminal().filter(|_| is_terminal)),
            colour: is_terminal && !no_colour && environment.text("TERM") != "dumb",
        }
    }

    /// Text without colour, of this width.
    #[cfg(test)]
    pub(crate) fn plain_text(width: Option<usize>) -> Self {
        Self {
            json: false,
            width,
            colour: false,
        }
    }

    /// The text in this style.
    pub(crate) fn styled(self, style: Style, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{}m{}\x1b[0m", style as u8, plain(text))
    }

    /// Prints the value as JSON, or these lines for people.
    pub(crate) fn print<T: AsRef<str>>(
        self,
        value: &impl Serialize,
        lines: impl FnOnce() -> Vec<T>,
    ) -> io::Result<()> {
        if self.json {
            Self::json(value)
        } else {
            self.lines(lines())
        }
    }

    /// Prints lines.
    pub(crate) fn lines<T: AsRef<str>>(self, lines: impl IntoIterator<Item = T>) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        for line in lines {
            let line = line.as_ref();
            let is_styled = self.colour && has_only_own_escapes(line);
            let line = if is_styled { line.into() } else { plain(line) };
            out.write_all(line.as_bytes())?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Prints a value as JSON.
    pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        serde_json::to_writer_pretty(&mut out, value)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

/// The items in one text.
pub(crate) fn joined<T: Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(separator)
}

/// The text without control characters, which a file may use against the terminal, without
/// characters that change its direction, and without those that XML doesn't allow.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    if text.contains(is_bad) {
        text.replace(is_bad, "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// Prints a line on stderr.
pub(crate) fn warn(line: impl Display) {
    eprintln!("ipamctl: {}", plain(&line.to_string()));
}

/// True if the line has no control characters but the escapes of [`Output::styled`].
fn has_only_own_escapes(line: &str) -> bool {
    let own = ["[0m", "[1m", "[2m", "[31m", "[32m", "[33m"];
    let mut parts = line.split('\x1b');
    let is_plain = |part: &str| matches!(plain(part), Cow::Borrowed(_));
    parts.next().is_none_or(is_plain)
        && parts.all(|part| own.iter().any(|own| part.starts_with(own)) && is_plain(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_dont_reach_the_terminal() {
        assert!(has_only_own_escapes("web-1"));
        assert!(has_only_own_escapes("\x1b[31mred\x1b[0m"));
        assert!(!has_only_own_escapes("a\x07b"));
        assert!(!has_only_own_escapes("\x1b]0;title"));
        assert_eq!(plain("\x1b[31mred\u{202e}"), "\u{fffd}[31mred\u{fffd}");
    }

    #[test]
    fn text_is_plain_unless_it_goes_to_a_terminal() {
        let plain = Output::plain_text(None);
        assert_eq!(plain.styled(Style::Red, "x"), "x");
        let coloured = Output {
            colour: true,
            ..plain
        };
        assert_eq!(coloured.styled(Style::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
