//! Changes to a run of bytes: what a torn write, a bad disk or a hurried editor
//! does to a file.

use bolero::{TypeGenerator, ValueGenerator};

use crate::Word;

/// One change. Places are taken modulo the length, so that each hits something.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Edit {
    /// This byte at this place.
    Put(u16, u8),
    /// These bits of the byte at this place the other way round.
    Flip(u16, u8),
    /// A word put in there.
    Insert(u16, Word),
    /// So many bytes taken out.
    Cut(u16, u8),
    /// Nothing any more from this place on.
    End(u16),
    /// So many bytes a second time.
    Double(u16, u8),
    /// So many bytes zero, as a power cut leaves them.
    Zero(u16, u8),
    /// So many bytes over those at another place.
    Move(u16, u16, u8),
}

impl Edit {
    /// Makes the change.
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
            Self::Flip(at, bits) => {
                let at = place(*at);
                bytes[at] ^= bits;
            }
            Self::Cut(at, length) => {
                bytes.drain(span(*at, *length));
            }
            Self::End(at) => bytes.truncate(place(*at)),
            Self::Double(at, length) => {
                let span = span(*at, *length);
                let copy = bytes[span.clone()].to_vec();
                bytes.splice(span.end..span.end, copy);
            }
            Self::Zero(at, length) => {
                let span = span(*at, *length);
                bytes[span].fill(0);
            }
            Self::Move(from, to, length) => {
                let source = bytes[span(*from, *length)].to_vec();
                let start = place(*to);
                let end = bytes.len().min(start + source.len());
                bytes[start..end].copy_from_slice(&source[..end - start]);
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

    #[test]
    fn each_change_is_one_of_any_bytes() {
        let edits = [
            Edit::Put(9, 1),
            Edit::Flip(9, 1),
            Edit::Insert(9, Word::Raw(vec![1, 2])),
            Edit::Cut(9, 200),
            Edit::End(9),
            Edit::Double(9, 200),
            Edit::Zero(9, 200),
            Edit::Move(9, 3, 200),
        ];
        for length in 0..12 {
            for edit in &edits {
                edit.apply(&mut vec![7; length]);
            }
        }
        let mut bytes = b"0123456789".to_vec();
        Edit::Move(8, 0, 1).apply(&mut bytes);
        Edit::Cut(2, 3).apply(&mut bytes);
        assert_eq!(bytes, b"896789");
    }
}
