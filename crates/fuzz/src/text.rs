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

    /// A text of the environment, which has no NUL.
    pub fn text_of(&self, seeds: &[&str]) -> OsString {
        let mut bytes = self.of(seeds);
        bytes.retain(|byte| *byte != 0);
        OsString::from_vec(bytes)
    }
}
