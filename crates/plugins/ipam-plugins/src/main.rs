#![doc = include_str!("../README.md")]

use std::process::ExitCode;

use ipam_da_host_local::IpamDaHostLocal;
use ipam_dc_probe::IpamDcProbe;
use ipam_delegated::IpamDelegated;
use ipam_ds_ranges::IpamDsRanges;
use ipam_ds_rules::IpamDsRules;
use ipam_ds_static::IPAM_DS_STATIC;
use ipam_gc::IpamGc;
use plugin::{Linked, MultiCall};

/// Only for musl. With glibc, this allocator makes an ADD 4 % slower.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let delegates = [
        Linked(&IpamDsRanges),
        Linked(&IpamDsRules),
        Linked(&IPAM_DS_STATIC),
        Linked(&IpamDaHostLocal),
        Linked(&IpamDcProbe),
    ];
    let gc = IpamGc {
        chain: IpamDelegated { others: &delegates },
    };
    let [ranges, rules, fixed, host_local, probe] = delegates;
    let delegated = Linked(&gc.chain);
    let all = [
        delegated,
        ranges,
        rules,
        fixed,
        host_local,
        probe,
        Linked(&gc),
    ];
    match MultiCall(&all).selected() {
        Ok(selected) => plugin::main(selected),
        Err(refused) => refused,
    }
}
