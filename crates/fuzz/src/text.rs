//! Nearly valid texts and files: a seed with changes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bolero::TypeGenerator;

use crate::Edit;

/// The content of a file.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Bytes {
    seed: u8,
    #[generator(Edit::several(4))]
    edits: Vec<Edit>,
}

impl Bytes {
    /// The bytes, made of one of these.
    pub fn of<S: AsRef<[u8]>>(&self, seeds: &[S]) -> Vec<u8> {
        let mut bytes = seeds[usize::from(self.seed) % seeds.len()]
            .as_ref()
            .to_vec();
        for edit in &self.edits {
            edit.apply(&mut bytes);
        }
        bytes
    }
}

/// The value of a variable: few changes, and no zeroes, which no variable can hold.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Text {
    seed: u8,
    #[generator(Edit::several(2))]
    edits: Vec<Edit>,
}

impl Text {
    /// The value, made of one of these.
    pub fn of(&self, seeds: &[&str]) -> OsString {
        let Self { seed, edits } = self.clone();
        let mut bytes = Bytes { seed, edits }.of(seeds);
        bytes.retain(|byte| *byte != 0);
        OsString::from_vec(bytes)
    }
}
