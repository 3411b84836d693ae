//! ADD: claims one address of each pool, or none at all.
//!
//! Configuration and pools are read before the first claim. A [`Search`] proposes addresses, and the
//! store's claim decides. If an answer was lost and the name is taken, the address is read: it is this
//! ADD's if it names the attachment. If that can't be told, the address is released, and the ADD fails
//! with 114 unless the release is proven. Addresses of owners come from `owner`; no failure takes them
//! back.

use std::net::IpAddr;

use cni::{Args, Attachment, Call, Error, IpConfig, IpamResult, code};
use ipam::{Completion, Pool};

use crate::pools::{CallPool, CallPools};
use crate::repetition::{read_one, until_answered};
use crate::search::Search;
use crate::{AddressKey, CallAttachment, Claim, Held, Holder, Node, Store, StoreError, owner};

/// Key of an answer: its addresses that are an owner's, which other containers may have, too.
const OWNED: &str = "owned";

/// Claims an address of each pool of `prevResult` for the attachment, or has its owner's, and adds the
/// addresses, `ipam.routes` and `ipam.resolvConf` to `prevResult`.
///
/// After a failure, no address is claimed any more, except for owners. If that can't be proven, the
/// code is 114.
///
/// # Errors
///
/// Code 11 if a pool has no free address; code 111 if a requested address is another attachment's;
/// code 7 for an invalid configuration; those of the store.
pub fn add(
    store: &mut dyn Store,
    node: &Node,
    attachment: &Attachment,
    call: &Call<'_>,
) -> Result<IpamResult, Error> {
    let config = &call.config;
    let completion = Completion::read(config, &config.ipam()?)?;
    let pools = CallPools::read(store, config)?;
    if pools.is_empty() {
        return Err(ipam::without_pools());
    }
    // Whatever can be wrong is found before an address is claimed.
    let has_owner = |pools: &CallPools<'_>| pools.owner(&attachment.ifname).is_some();
    let mut owned: Vec<IpAddr> = match pools.iter().any(has_owner) {
        true => completion.earlier(OWNED)?.unwrap_or_default(),
        false => Vec::new(),
    };
    let mut addition = Addition {
        store,
        own: CallAttachment::new(node, config.name().as_str(), attachment),
        args: call.args()?,
    };
    let given = ipam::all_or_nothing(
        &mut addition,
        &pools,
        |addition, pools| addition.give(pools),
        |addition, given| addition.take_back(given),
    )?;
    let of_owners = given.iter().filter(|given| given.of.pool.owner.is_some());
    owned.extend(of_owners.map(|given| given.ip));
    let mut answer = completion.with_addresses(given.iter().map(Given::config));
    if !owned.is_empty() {
        answer.set_other(OWNED, &owned);
    }
    Ok(answer)
}

/// An ADD of one attachment.
struct Addition<'a> {
    store: &'a mut dyn Store,
    own: CallAttachment<'a>,
    args: Args,
}

/// The address of a pool.
struct Given<'p> {
    of: CallPool<'p>,
    ip: IpAddr,
    /// What this ADD has created; `None` for an earlier ADD's, or an owner's.
    created: Option<Held>,
}

impl<'p> Given<'p> {
    fn config(&self) -> (&'p Pool, IpConfig) {
        let pool = self.of.pool;
        let range = pool.ranges.range_of(self.ip);
        let range = range.expect("the address is one of the pool's");
        let ip = IpConfig::new(self.ip, range.subnet().prefix_len(), range.gateway());
        (pool, ip)
    }
}

impl Addition<'_> {
    /// Claims an address of the first pool that has one.
    fn give<'p>(&mut self, pools: &'p CallPools<'_>) -> Result<Given<'p>, Error> {
        let given = match pools.owner(&self.own.attachment.ifname) {
            Some(holder) => {
                let (of, ip) = owner::give(self.store, &holder, pools)?;
                let created = None;
                Given { of, ip, created }
            }
            None => self.claim_one(pools)?,
        };
        tracing::debug!(ip = %given.ip, pool = given.of.describe(), "reserved");
        Ok(given)
    }

    /// Claims an address for the attachment.
    fn claim_one<'p>(&mut self, pools: &'p CallPools<'_>) -> Result<Given<'p>, Error> {
        for of in pools.tried() {
            if let Some(ip) = of.pool.requested {
                let created = self.requested(ip, of)?;
                return Ok(Given { of, ip, created });
            }
            if let Some(held) = self.any(of)? {
                let (ip, created) = (held.key.ip, Some(held));
                return Ok(Given { of, ip, created });
            }
        }
        Err(pools.exhausted(code::TRY_AGAIN_LATER))
    }

    /// Claims the requested address; `None` if an earlier ADD of this attachment has claimed it, which
    /// an undoing keeps.
    fn requested(&mut self, ip: IpAddr, pool: CallPool<'_>) -> Result<Option<Held>, Error> {
        let key = pool.key(ip);
        if let Some(created) = self.claim(&key, pool)? {
            return Ok(Some(created));
        }
        let held = read_one(self.store, &key)?;
        if held.as_ref().is_some_and(|held| self.own.holds(held)) {
            return Ok(None);
        }
        let holder = held.map_or("reserved already".to_owned(), |held| held.describe());
        let why = format!("{ip}, requested of {}, is {holder}", pool.describe());
        Err(Error::new(code::REQUESTED_TAKEN, why))
    }

    /// Claims an address that seems free; `None` if the pool is full.
    fn any(&mut self, pool: CallPool<'_>) -> Result<Option<Held>, Error> {
        let mut search = Search::new(pool, pool.pool.sticky.as_deref());
        let mut candidate = search.candidate();
        while let Some(ip) = candidate {
            if let Some(created) = self.claim(&pool.key(ip), pool)? {
                return Ok(Some(created));
            }
            candidate = search.after(ip, self.store)?;
        }
        Ok(None)
    }

    /// Claims an address; `None` if it is taken. After a lost answer, it is this ADD's if it names the
    /// attachment: the pools of a call have no address in common.
    fn claim(&mut self, key: &AddressKey, pool: CallPool<'_>) -> Result<Option<Held>, Error> {
        let holder = Holder::new(self.own, pool.name(), &self.args);
        let mut was_lost = false;
        let claim = until_answered(self.store, |store| {
            let answer = store.claim(key, &holder, 0);
            answer.inspect_err(|error| was_lost |= error.may_have_changed())
        });
        match claim {
            Ok(Claim::Created { id }) => Ok(Some(Held {
                key: key.clone(),
                holder: Some(holder),
                id,
                created: 0,
            })),
            Ok(Claim::Taken) if !was_lost => Ok(None),
            Ok(Claim::Taken) => match read_one(self.store, key) {
                Ok(held) => Ok(held.filter(|held| self.own.holds(held))),
                Err(error) => Err(self.undo_lost(key, error)),
            },
            Err(error) if was_lost => Err(self.undo_lost(key, error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Releases an address that this ADD has created.
    fn take_back(&mut self, given: &Given<'_>) -> Result<(), Error> {
        let Some(held) = &given.created else {
            return Ok(());
        };
        self.store.time().renew();
        until_answered(self.store, |store| store.release(held))?;
        held.log_release();
        Ok(())
    }

    /// Releases the address of a claim without an answer. Returns the claim's error, with code 114 if
    /// the claim may still be executed.
    fn undo_lost(&mut self, key: &AddressKey, error: StoreError) -> Error {
        self.store.time().renew();
        let released = read_one(self.store, key).and_then(|held| {
            let Some(held) = held.filter(|held| self.own.holds(held)) else {
                return Ok(false);
            };
            until_answered(self.store, |store| store.release(&held))?;
            held.log_release();
            Ok(true)
        });
        let left = match released {
            Ok(true) => return error.into(),
            Ok(false) => format!("{key} may still be claimed: an answer was lost"),
            Err(why) => format!("{key} is not released: {why}"),
        };
        Error {
            code: code::UNKNOWN_OUTCOME,
            ..Error::from(error).with_line(&left)
        }
    }
}
