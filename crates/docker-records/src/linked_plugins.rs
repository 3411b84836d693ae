//! The plugins that chains of Docker's networks run without an executable.

use cni::LinkedPlugin;
use ipam_da_host_local::IpamDaHostLocal;
use ipam_ds_ranges::IpamDsRanges;
use ipam_ds_rules::IpamDsRules;
use ipam_ds_static::IPAM_DS_STATIC;
use plugin::Linked;

use crate::pool_filter::PoolFilter;

/// The plugins that run in the daemon's process, and in `ipamctl`'s to release what the daemon has reserved.
pub const LINKED: &[&(dyn LinkedPlugin + 'static)] = &[
    &Linked(&IpamDsRanges),
    &Linked(&IpamDsRules),
    &Linked(&IPAM_DS_STATIC),
    &Linked(&PoolFilter),
    &Linked(&IpamDaHostLocal),
];
