//! Edits of bytes, as a torn write, a bad disk or a hurried editor makes them.

use bolero::{TypeGenerator, ValueGenerator};

use crate::Word;

/// One change. Places are taken modulo the length, so that each hits something.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Edit {
    /// This byte at this place.
    Put(u16, u8),
    /// A word put in there.
    Insert(u16, Word),
    /// So many bytes taken out.
    Cut(u16, u8),
    /// Nothing any more from this place on.
    End(u16),
    /// So many bytes zero, as a power cut leaves them.
    Zero(u16, u8),
}

impl Edit {
    /// Changes these bytes; a place behind their end counts modulo their number.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: u16| usize::from(at) % bytes.len().max(1);
        let span = |at: u16, length: u8| {
            let start = place(at);
            start..bytes.len().min(start + usize::from(length) + 1)
        };
        match self {
            Self::Insert(at, word) => {
                let at = place(*at);
                bytes.splice(at..at, word.bytes());
            }
            _ if bytes.is_empty() => {}
            Self::Put(at, byte) => {
                let at = place(*at);
                bytes[at] = *byte;
            }
            Self::Cut(at, length) => {
                bytes.drain(span(*at, *length));
            }
            Self::End(at) => bytes.truncate(place(*at)),
            Self::Zero(at, length) => {
                let span = span(*at, *length);
                bytes[span].fill(0);
            }
        }
    }

    /// Up to so many changes.
    pub fn several(most: usize) -> impl ValueGenerator<Output = Vec<Self>> {
        bolero::produce::<Vec<Self>>().with().len(0..=most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edit of `0123456789`.
    fn edited(edit: &Edit) -> String {
        let mut bytes = b"0123456789".to_vec();
        edit.apply(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_edit_changes_the_bytes_at_its_place() {
        for (edit, expected) in [
            (Edit::Put(13, b'x'), "012x456789"),
            (Edit::Insert(2, Word::Raw(b"xy".to_vec())), "01xy23456789"),
            (Edit::Cut(2, 2), "0156789"),
            (Edit::End(4), "0123"),
            (Edit::Zero(0, 1), "\x00\x0023456789"),
        ] {
            assert_eq!(edited(&edit), expected, "{edit:?}");
        }
    }

    #[test]
    fn an_edit_that_reaches_beyond_the_end_stops_there() {
        for (edit, expected) in [
            (Edit::Cut(8, 200), "01234567"),
            (Edit::Zero(8, 200), "01234567\0\0"),
        ] {
            assert_eq!(edited(&edit), expected, "{edit:?}");
        }
    }

    #[test]
    fn of_no_bytes_only_an_insertion_makes_some() {
        let mut bytes = Vec::new();
        for edit in [Edit::Put(9, 1), Edit::Cut(9, 9), Edit::End(9)] {
            edit.apply(&mut bytes);
            assert!(bytes.is_empty(), "{edit:?}");
        }
        Edit::Insert(9, Word::Raw(vec![7])).apply(&mut bytes);
        assert_eq!(bytes, [7]);
    }
}
