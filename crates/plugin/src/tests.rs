//! A plugin for the unit tests.

use cni::{About, Attachment, Call, Error, IpamResult, Plugin, Reply};

/// A plugin with this name. Its ADD result has a little more than `length` bytes.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) length: usize,
}

impl Plugin for Example {
    fn about(&self) -> About {
        About {
            name: self.name,
            version: "0",
            summary: "",
        }
    }

    fn add(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        let mut result = IpamResult::default();
        result.set_other("x", &"x".repeat(self.length));
        Ok(Reply::Result(result))
    }
}
