//! All plugins in one executable, and one more that panics on ADD. It shows what a
//! defect in one of them does to the others.

use std::process::ExitCode;

use cni::{About, Attachment, Call, Error, OneFile, Plugin, Reply};
use ipam_da_host_local::IpamDaHostLocal;
use ipam_delegated::IpamDelegated;

struct IpamDaPanics;

impl Plugin for IpamDaPanics {
    fn about(&self) -> About {
        About {
            name: "ipam-da-panics",
            version: "1.0.0",
            summary: "panics on ADD",
        }
    }

    fn add(&self, attachment: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        panic!("no room for {attachment}");
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

fn main() -> ExitCode {
    let delegates: [&dyn Plugin; 2] = [&IpamDaHostLocal, &IpamDaPanics];
    let delegated = IpamDelegated {
        others: OneFile::new(&delegates),
    };
    OneFile::new(&[&delegated, &IpamDaHostLocal, &IpamDaPanics]).main()
}
