//! Output: text for people, fitted to the terminal, or JSON for programs.

pub(crate) mod table;
pub(crate) mod times;

use std::io::{self, IsTerminal, Write};

use cni::Environment;
use serde::Serialize;

/// Style of a piece of text on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Yellow,
    Green,
}

/// Destination and form of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// True for JSON.
    pub(crate) json: bool,
    /// Columns of the terminal; `None` where stdout is none.
    pub(crate) width: Option<usize>,
    colour: bool,
}

impl Output {
    /// The output of this process. `NO_COLOR` (no-color.org) turns colours off, if it is
    /// not empty; `COLUMNS` overrides the width.
    pub(crate) fn of_process(json: bool, environment: &Environment) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let no_colour = environment.get("NO_COLOR").is_some_and(|it| !it.is_empty());
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

    /// The text in this style.
    pub(crate) fn styled(self, style: Style, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let text = plain(text);
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Red => "31",
            Style::Yellow => "33",
            Style::Green => "32",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Prints lines.
    pub(crate) fn lines<T: AsRef<str>>(self, lines: impl IntoIterator<Item = T>) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        for line in lines {
            let line = line.as_ref();
            let line = if self.colour {
                printable(line)
            } else {
                plain(line)
            };
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

    /// Prints a table.
    pub(crate) fn table(self, table: &crate::output::table::Table) -> io::Result<()> {
        let lines = table.render(self.width).into_iter().zip(table.styles());
        self.lines(lines.map(|(line, style)| match style {
            Some(style) => self.styled(style, &line),
            None => line,
        }))
    }
}

/// The text without control characters, which a file of somebody else's might use against
/// the terminal. The escapes of [`Output::styled`] stay.
fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && c != '\x1b';
    if !text.contains(is_bad) && !has_foreign_escape(text) {
        return text.into();
    }
    plain(text)
}

/// The text without control characters, without those that change its direction, and without
/// those that XML can't have.
pub(crate) fn plain(text: &str) -> std::borrow::Cow<'_, str> {
    let is_bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    if !text.contains(is_bad) {
        return text.into();
    }
    let text: String = text
        .chars()
        .map(|c| if is_bad(c) { '\u{fffd}' } else { c })
        .collect();
    text.into()
}

/// Prints a line on stderr.
pub(crate) fn warn(line: &str) {
    eprintln!("ipamctl: {}", plain(line));
}

/// True if an escape is none of those that [`Output::styled`] writes.
fn has_foreign_escape(text: &str) -> bool {
    let own = ["[0m", "[1m", "[2m", "[31m", "[32m", "[33m"];
    let mut parts = text.split('\x1b').skip(1);
    parts.any(|part| !own.iter().any(|own| part.starts_with(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_dont_reach_the_terminal() {
        assert_eq!(printable("web-1"), "web-1");
        assert_eq!(printable("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
        assert_eq!(printable("a\x07b"), "a\u{fffd}b");
        assert_eq!(printable("\x1b]0;title"), "\u{fffd}]0;title");
        assert_eq!(plain("\x1b[31mred\u{202e}"), "\u{fffd}[31mred\u{fffd}");
    }

    #[test]
    fn text_is_plain_unless_it_goes_to_a_terminal() {
        let plain = Output {
            json: false,
            width: None,
            colour: false,
        };
        assert_eq!(plain.styled(Style::Red, "x"), "x");
        let coloured = Output {
            colour: true,
            ..plain
        };
        assert_eq!(coloured.styled(Style::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
