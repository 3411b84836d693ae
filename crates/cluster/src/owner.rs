//! Addresses of owners: each ADD of an owner has the same one, which no DEL releases.
//!
//! The reservation is the memory. Of several addresses of one key, those in the pool that was asked
//! for count, and of these the one that was created first, for everybody: whoever has claimed a later
//! one lists the earlier one after its claim.

use std::net::IpAddr;

use cni::{Error, code};

use crate::pools::{CallPool, CallPools};
use crate::repetition::{read_listed, read_one, until_answered};
use crate::search::Search;
use crate::{Held, Holder, Selection, Store, StoreError};

/// The addresses of an owner's key, in the order of their creation.
///
/// # Errors
///
/// Those of the store.
pub fn of_owner(store: &mut dyn Store, holder: &Holder) -> Result<Vec<Held>, StoreError> {
    let hash = holder.owner_hash().unwrap_or_default();
    let mut all = read_listed(store, &Selection::Owner(&hash))?;
    all.retain(|held| held.is_of(holder));
    all.sort_by_key(|held| held.created);
    Ok(all)
}

/// What an owner has in the pools of an entry.
struct Owned<'p> {
    /// The address that counts.
    counted: Option<(CallPool<'p>, IpAddr)>,
    /// Revision of the address that was created last, in any pool; 0 if there is none.
    latest: u64,
}

impl<'p> Owned<'p> {
    fn read(
        store: &mut dyn Store,
        holder: &Holder,
        pools: &'p CallPools<'_>,
    ) -> Result<Self, StoreError> {
        let all = of_owner(store, holder)?;
        let in_pools = |held: &Held| {
            let pool = pools.all().find(|pool| pool.gives(&held.key))?;
            Some((pool, held.key.ip))
        };
        Ok(Self {
            counted: all.iter().find_map(in_pools),
            latest: all.last().map_or(0, |held| held.created),
        })
    }
}

/// The owner's address of an entry's pools; a new one of the first pool that has one, if it has none.
///
/// # Errors
///
/// Code 11 if no pool has a free address; code 111 if the requested one isn't the owner's; those of
/// the store.
pub(crate) fn give<'p>(
    store: &mut dyn Store,
    holder: &Holder,
    pools: &'p CallPools<'_>,
) -> Result<(CallPool<'p>, IpAddr), Error> {
    let mut owned = Owned::read(store, holder, pools)?;
    let hash = holder.owner_hash().unwrap_or_default();
    for named in pools.tried() {
        let holder = Holder {
            pool: named.name().to_owned(),
            ..holder.clone()
        };
        let mut search = Search::new(named, Some(&hash));
        let requested = named.pool.requested;
        let mut candidate = requested.or_else(|| search.candidate());
        while let (Some(ip), None) = (candidate, owned.counted) {
            let key = named.key(ip);
            // Whoever has the address now, only the list says which one counts.
            until_answered(store, |store| store.claim(&key, &holder, owned.latest))?;
            owned = Owned::read(store, &holder, pools)?;
            candidate = match owned.counted.or(requested.map(|ip| (named, ip))) {
                Some(_) => None,
                None => search.after(ip, store)?,
            };
        }
        match (owned.counted, requested) {
            (counted, Some(ip)) if counted.is_none_or(|(_, own)| own != ip) => {
                return Err(not_requested(store, named, ip, owned.counted));
            }
            (Some(counted), _) => return Ok(counted),
            (None, _) => {}
        }
    }
    Err(pools.exhausted(code::TRY_AGAIN_LATER))
}

/// The error that the requested address is another one's, or that the owner has another one.
fn not_requested(
    store: &mut dyn Store,
    pool: CallPool<'_>,
    ip: IpAddr,
    counted: Option<(CallPool<'_>, IpAddr)>,
) -> Error {
    let why = match (counted, read_one(store, &pool.key(ip))) {
        (Some((_, own)), _) => {
            format!("not its owner's {own}: ipamctl release {own} releases that")
        }
        (None, Ok(Some(held))) => held.describe(),
        (None, Ok(None)) => "reserved already".to_owned(),
        (None, Err(error)) => return error.into(),
    };
    let pool = pool.describe();
    let why = format!("{ip}, requested of {pool}, is {why}");
    Error::new(code::REQUESTED_TAKEN, why)
}
