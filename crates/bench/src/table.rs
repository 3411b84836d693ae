//! Table of figures, in Markdown.

use std::fmt;
use std::iter::once;

/// A table: the first column is text, the others are figures.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        let header: Vec<String> = header.into_iter().map(Into::into).collect();
        let rule = |i: usize| if i == 0 { ":--" } else { "--:" }.to_owned();
        let rule = (0..header.len()).map(rule).collect();
        Self {
            rows: vec![header, rule],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, first: String, cells: impl IntoIterator<Item = String>) {
        self.rows.push(once(first).chain(cells).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows
            .iter()
            .try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

/// A figure with this number of digits after the decimal point; a dash if nothing was measured.
pub(crate) fn figure(value: f64, digits: usize) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else {
        format!("{value:.digits$}")
    }
}

/// A number below a million, with a comma before its thousands, as the tables show it.
pub(crate) fn grouped(number: usize) -> String {
    match number {
        ..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_aligned_to_the_right() {
        let mut table = Table::new(["ms", "ours"]);
        table.row("ADD".to_owned(), [figure(0.678, 2)]);
        table.row("DEL".to_owned(), [figure(f64::NAN, 2)]);
        let expected = "| ms | ours |\n| :-- | --: |\n| ADD | 0.68 |\n| DEL | – |\n";
        assert_eq!(table.to_string(), expected);
    }
}
