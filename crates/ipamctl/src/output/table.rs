//! Aligned tables that fit the terminal.
//!
//! 65,533 rows must take milliseconds, so each cell is measured once and written once.

use crate::output::{Output, Style};

/// Smallest width to which a column is cut.
const NARROWEST: usize = 8;

/// Space between two columns.
const GAP: &str = "  ";

/// A table with a line for each of these rows.
pub(crate) struct Table<'r, R> {
    rows: &'r [R],
    columns: Vec<Column>,
}

struct Column {
    header: &'static str,
    is_right_aligned: bool,
    /// A cell for each row.
    cells: Vec<String>,
    width: usize,
}

impl<'r, R> Table<'r, R> {
    pub(crate) fn of(rows: &'r [R]) -> Self {
        let columns = Vec::new();
        Self { rows, columns }
    }

    /// Adds a column of text, unless it is empty in every row.
    #[must_use]
    pub(crate) fn text(self, header: &'static str, cell: impl Fn(&'r R) -> String) -> Self {
        self.column(header, false, cell)
    }

    /// Adds a column of numbers, which are aligned to the right.
    #[must_use]
    pub(crate) fn number(self, header: &'static str, cell: impl Fn(&'r R) -> String) -> Self {
        self.column(header, true, cell)
    }

    fn column(
        mut self,
        header: &'static str,
        is_right_aligned: bool,
        cell: impl Fn(&'r R) -> String,
    ) -> Self {
        let cells: Vec<String> = self.rows.iter().map(cell).collect();
        let widest = cells.iter().map(|cell| length(cell)).max().unwrap_or(0);
        if widest > 0 {
            self.columns.push(Column {
                header,
                is_right_aligned,
                cells,
                width: widest.max(length(header)),
            });
        }
        self
    }

    /// The lines, fitted to the terminal, each row in its style. The widest columns are cut first;
    /// a cut cell ends with `…`.
    pub(crate) fn lines(
        mut self,
        output: Output,
        style: impl Fn(&R) -> Option<Style>,
    ) -> Vec<String> {
        if let Some(width) = output.width {
            narrow(&mut self.columns, width);
        }
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        lines.push(output.styled(Style::Dim, &self.line(|column| column.header)));
        lines.extend(self.rows.iter().enumerate().map(|(row, of)| {
            let line = self.line(|column| &column.cells[row]);
            match style(of) {
                Some(style) => output.styled(style, &line),
                None => line,
            }
        }));
        lines
    }

    fn line<'c>(&'c self, cell: impl Fn(&'c Column) -> &'c str) -> String {
        let mut line = String::new();
        for column in &self.columns {
            if !line.is_empty() {
                line.push_str(GAP);
            }
            let (cell, width) = (cell(column), column.width);
            let length = length(cell);
            let padding = std::iter::repeat_n(' ', width.saturating_sub(length));
            if length > width {
                line.extend(cell.chars().take(width - 1));
                line.push('…');
            } else if column.is_right_aligned {
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

/// Makes the widest columns narrower until all fit, but none narrower than [`NARROWEST`].
fn narrow(columns: &mut [Column], width: usize) {
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    while columns.iter().map(|column| column.width).sum::<usize>() + gaps > width {
        match columns.iter_mut().max_by_key(|column| column.width) {
            Some(widest) if widest.width > NARROWEST => widest.width -= 1,
            _ => return,
        }
    }
}

/// Number of characters. Names and addresses are ASCII; in bars, each character is one cell.
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
        let rows = [
            ("a-network-with-a-long-name", "7", ""),
            ("b", "65533", "full"),
        ];
        Table::of(&rows)
            .text("NAME", |(name, ..)| (*name).to_owned())
            .text("NOTHING", |_| String::new())
            .number("SIZE", |(_, size, _)| (*size).to_owned())
            .text("REMARK", |(.., remark)| (*remark).to_owned())
            .lines(Output::plain_text(width), |_| None)
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
