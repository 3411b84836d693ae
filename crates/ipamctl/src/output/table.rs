//! Aligned tables that fit the terminal.
//!
//! Layout of 65,533 rows has to take a few milliseconds, so each cell is measured once and
//! written once.

use crate::output::Style;

/// The narrowest that a column becomes.
const NARROWEST: usize = 8;

/// Space between two columns.
const GAP: &str = "  ";

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table: a header, and rows of as many cells.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    /// The style of each row.
    styles: Vec<Option<Style>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            styles: Vec::new(),
        }
    }

    /// Adds a row, in this style.
    pub(crate) fn row<const N: usize>(&mut self, style: Option<Style>, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(cells.into());
        self.styles.push(style);
    }

    /// The style of each line of [`Self::render`].
    pub(crate) fn styles(&self) -> impl Iterator<Item = Option<Style>> {
        [Some(Style::Dim)]
            .into_iter()
            .chain(self.styles.iter().copied())
    }

    /// The lines of the table, at most this wide. Columns that are empty in every row are
    /// left out. The widest columns are cut first; a cut cell ends with `…`.
    pub(crate) fn render(&self, width: Option<usize>) -> Vec<String> {
        let is_used = |at: usize| self.rows.iter().any(|row| !row[at].is_empty());
        let used: Vec<usize> = (0..self.columns.len()).filter(|at| is_used(*at)).collect();
        let mut widths: Vec<usize> = used
            .iter()
            .map(|&at| {
                let cells = self.rows.iter().map(|row| length(&row[at]));
                cells.max().unwrap_or(0).max(length(self.columns[at].0))
            })
            .collect();
        if let Some(width) = width {
            narrow(&mut widths, width);
        }
        let header: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        lines.push(self.line(&header, &used, &widths));
        let rows = self.rows.iter();
        lines.extend(rows.map(|row| self.line(row, &used, &widths)));
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
            let padding = width.saturating_sub(length);
            if self.columns[at].1 == Align::Right {
                line.extend(std::iter::repeat_n(' ', padding));
            }
            if length > width {
                line.extend(cell.chars().take(width - 1));
                line.push('…');
            } else {
                line.push_str(cell);
            }
            if self.columns[at].1 == Align::Left && i + 1 < used.len() {
                line.extend(std::iter::repeat_n(' ', padding));
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
        let Some(widest) = widths.iter_mut().max() else {
            return;
        };
        if *widest <= NARROWEST {
            return;
        }
        *widest -= 1;
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

    fn table() -> Table {
        let mut table = Table::new(&[
            ("NAME", Align::Left),
            ("NOTHING", Align::Left),
            ("SIZE", Align::Right),
            ("REMARK", Align::Left),
        ]);
        let row = |name: &str, size: &str, remark: &str| {
            [name.into(), String::new(), size.into(), remark.into()]
        };
        table.row(None, row("a-network-with-a-long-name", "7", ""));
        table.row(None, row("b", "65533", "full"));
        table
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        assert_eq!(
            table().render(None),
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
            table().render(Some(26)),
            [
                "NAME          SIZE  REMARK",
                "a-network-…      7",
                "b            65533  full",
            ]
        );
        // Nothing is left of a terminal that is too narrow, but the table is still there.
        assert_eq!(table().render(Some(3)).len(), 3);
    }
}
