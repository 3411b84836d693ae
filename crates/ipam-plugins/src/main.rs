#![doc = include_str!("../README.md")]

use std::process::ExitCode;

use cni_plugin::{Linked, MultiCall};
use ipam_da_host_local::IpamDaHostLocal;
use ipam_delegated::IpamDelegated;
use ipam_ds_ranges::IpamDsRanges;

fn main() -> ExitCode {
    let delegates = [Linked(&IpamDsRanges), Linked(&IpamDaHostLocal)];
    let delegated = IpamDelegated { others: &delegates };
    MultiCall(&[Linked(&delegated), delegates[0], delegates[1]]).main()
}
