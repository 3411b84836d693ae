//! Aligned tables that fit the terminal.
//!
//! Layout of 65,533 rows has to take a few milliseconds, so each cell is measured once and
//! written once.

use crate::output::{Output, Style};

/// The narrowest that a column becomes.
const NARROWEST: usize = 8;

/// Space between two columns.
const GAP: &str = "  ";

/// A table: a header, and rows of as many cells.
#[derive(Debug)]
pub(crate) struct Table {
    header: &'static [&'static str],
    /// The names of the columns that are aligned to the right.
    right: &'static [&'static str],
    rows: Vec<(Option<Style>, Vec<String>)>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(header: &'static [&'static str]) -> Self {
        Self {
            header,
            right: &[],
            rows: Vec::new(),
        }
    }

    /// Aligns these columns to the right.
    #[must_use]
    pub(crate) fn right_aligned(mut self, columns: &'static [&'static str]) -> Self {
        self.right = columns;
        self
    }

    /// Adds a row, in this style.
    pub(crate) fn row<const N: usize>(&mut self, style: Option<Style>, cells: [String; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push((style, cells.into()));
    }

    /// The lines of the table, fitted to the terminal. Columns that are empty in every row are
    /// left out. The widest columns are cut first; a cut cell ends with `…`.
    pub(crate) fn lines(&self, output: Output) -> Vec<String> {
        let is_used = |at: &usize| self.rows.iter().any(|(_, cells)| !cells[*at].is_empty());
        let used: Vec<usize> = (0..self.header.len()).filter(is_used).collect();
        let mut widths: Vec<usize> = used
            .iter()
            .map(|&at| {
                let cells = self.rows.iter().map(|(_, cells)| length(&cells[at]));
                cells.max().unwrap_or(0).max(length(self.header[at]))
            })
            .collect();
        if let Some(width) = output.width {
            narrow(&mut widths, width);
        }
        let header = self.line(self.header, &used, &widths);
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        lines.push(output.styled(Style::Dim, &header));
        lines.extend(self.rows.iter().map(|(style, cells)| {
            let line = self.line(cells, &used, &widths);
            match style {
                Some(style) => output.styled(*style, &line),
                None => line,
            }
        }));
        lines
    }

    fn line<T: AsRef<str>>(&self, cells: &[T], used: &[usize], widths: &[usize]) -> String {
        let mut line = String::with_capacity(widths.iter().sum::<usize>() + 2 * widths.len());
        for (i, (&at, &width)) in used.iter().zip(widths).enumerate() {
            if i > 0 {
                line.push_str(GAP);
            }
            let cell = cells[at].as_ref();
            let length = length(cell);
            let padding = std::iter::repeat_n(' ', width.saturating_sub(length));
            if length > width {
                line.extend(cell.chars().take(width - 1));
                line.push('…');
            } else if self.right.contains(&self.header[at]) {
                line.extend(padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.extend(padding);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Makes the widest columns narrower until all fit, but none narrower than
/// [`NARROWEST`].
fn narrow(widths: &mut [usize], width: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => return,
        }
    }
}

/// Number of characters. Names and addresses are ASCII, bars are one cell a character.
fn length(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(width: Option<usize>) -> Vec<String> {
        let header = &["NAME", "NOTHING", "SIZE", "REMARK"];
        let mut table = Table::new(header).right_aligned(&["SIZE"]);
        let row = |name: &str, size: &str, remark: &str| {
            [name.into(), String::new(), size.into(), remark.into()]
        };
        table.row(None, row("a-network-with-a-long-name", "7", ""));
        table.row(None, row("b", "65533", "full"));
        table.lines(Output::plain_text(width))
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        assert_eq!(
            lines(None),
            [
                "NAME                         SIZE  REMARK",
                "a-network-with-a-long-name      7",
                "b                           65533  full",
            ]
        );
    }

    #[test]
    fn the_widest_column_is_cut_until_the_table_fits() {
        assert_eq!(
            lines(Some(26)),
            [
                "NAME          SIZE  REMARK",
                "a-network-…      7",
                "b            65533  full",
            ]
        );
        // Nothing is left of a terminal that is too narrow, but the table is still there.
        assert_eq!(lines(Some(3)).len(), 3);
    }
}
