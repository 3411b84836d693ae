//! ADD: claims one address of each pool, or none at all.

use std::net::IpAddr;

use cni::{Args, Attachment, Call, Error, IpConfig, IpamResult, code};
use ipam::{Completion, Pool};

use crate::pools::{NamedPool, NamedPools};
use crate::repetition::{read_one, until_answered};
use crate::search::Search;
use crate::{AddressKey, Claim, Held, Holder, Node, Store, StoreError};

/// Claims an address of each pool of `prevResult` for the attachment, and adds the addresses,
/// `ipam.routes` and `ipam.resolvConf` to `prevResult`.
///
/// After a failure, no address is claimed any more. If that can't be proven, the code is 114.
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
    let pools = NamedPools::read(store, config)?;
    if pools.is_empty() {
        return Err(ipam::without_pools());
    }
    let mut addition = Addition {
        store,
        node,
        network: config.name().as_str(),
        attachment,
        args: call.args()?,
        created: Vec::new(),
        unsettled: None,
    };
    let given: Result<Vec<_>, Error> = pools.iter().map(|pools| addition.give(pools)).collect();
    match given {
        Ok(given) => Ok(completion.with_addresses(given)),
        Err(error) => Err(addition.undo(error)),
    }
}

/// An ADD of one attachment.
struct Addition<'a> {
    store: &'a mut dyn Store,
    node: &'a Node,
    network: &'a str,
    attachment: &'a Attachment,
    args: Args,
    /// The addresses that this ADD has claimed.
    created: Vec<Held>,
    /// The address of a claim without an answer.
    unsettled: Option<AddressKey>,
}

/// Outcome of a claim.
enum Claimed {
    Ours,
    /// By whom, if that was asked.
    Taken(Option<Box<Held>>),
}

impl Addition<'_> {
    /// Claims an address of the first pool that has one.
    fn give<'p>(&mut self, pools: &'p NamedPools) -> Result<(&'p Pool, IpConfig), Error> {
        for named in pools.tried() {
            let claimed = match named.pool.requested {
                Some(ip) => Some(self.requested(ip, named)?),
                None => self.any(named)?,
            };
            if let Some(ip) = claimed {
                tracing::debug!(%ip, pool = named.describe(), "reserved");
                let range = named.pool.ranges.range_of(ip);
                let range = range.expect("the address is one of the pool's");
                let prefix_len = range.subnet().prefix_len();
                let ip = IpConfig::new(ip, prefix_len, range.gateway());
                return Ok((&named.pool, ip));
            }
        }
        Err(pools.exhausted(code::TRY_AGAIN_LATER))
    }

    /// Claims the requested address.
    fn requested(&mut self, ip: IpAddr, pool: &NamedPool) -> Result<IpAddr, Error> {
        let key = pool.key(ip);
        match self.claim(&key, pool, true)? {
            Claimed::Ours => Ok(ip),
            Claimed::Taken(held) => {
                let holder = held.map_or("reserved already".to_owned(), |held| held.describe());
                Err(Error::new(
                    code::REQUESTED_TAKEN,
                    format!("{ip}, requested of {}, is {holder}", pool.describe()),
                ))
            }
        }
    }

    /// Claims an address that seems free; `None` if the pool is full.
    fn any(&mut self, pool: &NamedPool) -> Result<Option<IpAddr>, Error> {
        let mut search = Search::new(pool, pool.pool.sticky.as_deref());
        let mut candidate = search.candidate();
        while let Some(ip) = candidate {
            if matches!(self.claim(&pool.key(ip), pool, false)?, Claimed::Ours) {
                return Ok(Some(ip));
            }
            search.note_taken(ip);
            if self.store.time().left().is_zero() {
                return Err(Error::new(
                    code::TRY_AGAIN_LATER,
                    format!("others took the addresses of {} first", pool.describe()),
                ));
            }
            candidate = search.free(self.store)?;
        }
        Ok(None)
    }

    /// Claims an address. If it is taken, `asks_holder` says whether its holder matters: this
    /// attachment may hold it.
    fn claim(
        &mut self,
        key: &AddressKey,
        pool: &NamedPool,
        asks_holder: bool,
    ) -> Result<Claimed, Error> {
        let Self {
            node,
            network,
            attachment,
            ..
        } = *self;
        let holder = Holder::new(node, network, attachment, &pool.name, &self.args);
        let mut was_lost = false;
        let claim = until_answered(self.store, |store| {
            store.claim(key, &holder).inspect_err(|error| {
                was_lost |= error.may_have_changed();
            })
        });
        if was_lost {
            self.unsettled = Some(key.clone());
        }
        if let Claim::Created { id } = claim? {
            self.unsettled = None;
            self.created.push(Held {
                key: key.clone(),
                holder: Some(holder),
                id,
            });
            return Ok(Claimed::Ours);
        }
        if !asks_holder && !was_lost {
            return Ok(Claimed::Taken(None));
        }
        let held = read_one(self.store, key)?;
        self.unsettled = None;
        let is_used = self.created.iter().any(|created| created.key == *key);
        match held {
            Some(held) if held.is(node, network, attachment) && !is_used => {
                // Without a lost answer, an earlier ADD has claimed it, and an undoing keeps it.
                if was_lost {
                    self.created.push(held);
                }
                Ok(Claimed::Ours)
            }
            held => Ok(Claimed::Taken(held.map(Box::new))),
        }
    }

    /// Releases what this ADD has claimed. Returns the ADD's error, with code 114 if something may
    /// be left.
    fn undo(&mut self, error: Error) -> Error {
        if self.created.is_empty() && self.unsettled.is_none() {
            return error;
        }
        self.store.time().renew();
        let mut left: Vec<String> = Vec::new();
        let key_of_error =
            |key: &AddressKey, why: &StoreError| format!("{key} is not undone: {why}");
        for held in &self.created {
            match until_answered(self.store, |store| store.release(held)) {
                Ok(_) => held.log_release(),
                Err(why) => left.push(key_of_error(&held.key, &why)),
            }
        }
        if let Some(key) = self.unsettled.take() {
            match self.release_unsettled(&key) {
                Ok(true) => {}
                Ok(false) => left.push(format!("{key} may still be claimed: an answer was lost")),
                Err(why) => left.push(key_of_error(&key, &why)),
            }
        }
        match left.is_empty() {
            true => error,
            false => Error {
                code: code::UNKNOWN_OUTCOME,
                ..error.with_line(&left.join("\n"))
            },
        }
    }

    /// Releases the address of a claim without an answer. False if it isn't this attachment's: the
    /// claim may be executed later.
    fn release_unsettled(&mut self, key: &AddressKey) -> Result<bool, StoreError> {
        let held = read_one(self.store, key)?;
        let is_ours = |held: &Held| held.is(self.node, self.network, self.attachment);
        let Some(held) = held.filter(is_ours) else {
            return Ok(false);
        };
        until_answered(self.store, |store| store.release(&held))?;
        held.log_release();
        Ok(true)
    }
}
