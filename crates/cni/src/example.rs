//! A plugin for the unit tests.

use crate::{About, Attachment, Call, Error, IpamResult, Plugin, Reply};

/// It has this name, and on ADD, its result has so many bytes and some more.
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

    fn del(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    fn check(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    fn gc(&self, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    fn status(&self, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }
}
