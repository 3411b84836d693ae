//! Aligned tables.
//!
//! 65,533 rows must take milliseconds, and little memory.

use std::fmt::Write;

/// Space between two columns.
const GAP: &str = "  ";

/// A table with a line for each of these rows.
pub(crate) struct Table<'r, R> {
    rows: &'r [R],
    columns: Vec<Column<'r, R>>,
}

struct Column<'r, R> {
    header: &'static str,
    is_right_aligned: bool,
    /// The cell of a row. It is made twice, to be measured and to be written: all cells of a long
    /// list would need more memory than its rows.
    cell: Box<dyn Fn(&'r R) -> String + 'r>,
    width: usize,
}

impl<'r, R> Table<'r, R> {
    pub(crate) fn of(rows: &'r [R]) -> Self {
        let columns = Vec::new();
        Self { rows, columns }
    }

    /// Adds a column of text, unless it is empty in every row.
    #[must_use]
    pub(crate) fn text(self, header: &'static str, cell: impl Fn(&'r R) -> String + 'r) -> Self {
        self.column(header, false, cell)
    }

    /// Adds a column of numbers, which are aligned to the right.
    #[must_use]
    pub(crate) fn number(self, header: &'static str, cell: impl Fn(&'r R) -> String + 'r) -> Self {
        self.column(header, true, cell)
    }

    fn column(
        mut self,
        header: &'static str,
        is_right_aligned: bool,
        cell: impl Fn(&'r R) -> String + 'r,
    ) -> Self {
        let widths = self.rows.iter().map(|row| cell(row).chars().count());
        let widest = widths.max().unwrap_or(0);
        if widest > 0 {
            self.columns.push(Column {
                header,
                is_right_aligned,
                cell: Box::new(cell),
                width: widest.max(header.len()),
            });
        }
        self
    }

    /// The lines: the headers, then the rows; none without rows.
    pub(crate) fn lines(self) -> impl Iterator<Item = String> {
        let headers = (!self.rows.is_empty()).then(|| self.line(|column| column.header.to_owned()));
        let rows = self.rows.iter();
        let rows = rows.map(move |row| self.line(|column| (column.cell)(row)));
        headers.into_iter().chain(rows)
    }

    fn line(&self, cell: impl Fn(&Column<'r, R>) -> String) -> String {
        let mut line = String::new();
        for column in &self.columns {
            if !line.is_empty() {
                line.push_str(GAP);
            }
            let (cell, width) = (cell(column), column.width);
            let written = if column.is_right_aligned {
                write!(line, "{cell:>width$}")
            } else {
                write!(line, "{cell:width$}")
            };
            written.expect("a String takes all");
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let rows = [("a-network", "7", ""), ("b", "65533", "full")];
        let table = Table::of(&rows)
            .text("NAME", |(name, ..)| (*name).to_owned())
            .text("NOTHING", |_| String::new())
            .number("SIZE", |(_, size, _)| (*size).to_owned())
            .text("REMARK", |(.., remark)| (*remark).to_owned());
        assert_eq!(
            table.lines().collect::<Vec<_>>(),
            [
                "NAME        SIZE  REMARK",
                "a-network      7",
                "b          65533  full",
            ]
        );
    }
}
