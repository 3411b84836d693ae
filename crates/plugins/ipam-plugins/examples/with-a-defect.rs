//! All plugins in one executable, with one more that panics on ADD. It tests how a defect in one
//! plugin affects the others.

use std::process::ExitCode;

use cni::{About, Attachment, Call, Error, Plugin, Reply};
use ipam_da_host_local::IpamDaHostLocal;
use ipam_delegated::IpamDelegated;
use plugin::{Linked, MultiCall};

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
}

fn main() -> ExitCode {
    let delegates = [Linked(&IpamDaHostLocal), Linked(&IpamDaPanics)];
    let delegated = IpamDelegated { others: &delegates };
    let all = [Linked(&delegated), delegates[0], delegates[1]];
    match MultiCall(&all).selected() {
        Ok(selected) => plugin::main(selected),
        Err(refused) => refused,
    }
}
