//! Chooses the address of one pool.

use std::net::IpAddr;

use cni::{Error, NetworkName, code};
use ipam::Pool;

use super::candidates::Candidates;
use super::free::{self, free};
use super::rotation_place::RotationPlaces;
use super::sticky;
use crate::{Engine, Found, Holder, Read};

/// A pool of the ADD, and the known state of its addresses.
pub(super) struct Choice<'p> {
    pub(super) pool: &'p Pool,
    /// Its name in the engine.
    pub(super) name: &'p str,
    network: &'p NetworkName,
    /// Its index among the pools of the ADD.
    index: usize,
    pub(super) rotation: usize,
    /// The address of its sticky key; `None` once it is found reserved.
    pub(super) remembered: Option<IpAddr>,
    candidates: Candidates,
    /// The last given address, after which the rotation continues.
    last: Option<IpAddr>,
    /// True while no other caller seems to request the next addresses.
    in_rotation: bool,
    /// True if the engine remembers which addresses this node has seen reserved.
    engine_remembers: bool,
    /// The address that is requested.
    pub(super) asked: Option<IpAddr>,
}

impl<'p> Choice<'p> {
    /// The pool with this index among the ADD's pools.
    pub(super) fn new(network: &'p NetworkName, index: usize, pool: &'p Pool) -> Self {
        Self {
            pool,
            name: pool.directory(network).as_str(),
            network,
            index,
            rotation: pool.rotation_index(network, index),
            remembered: None,
            candidates: Candidates::default(),
            last: None,
            in_rotation: true,
            engine_remembers: false,
            asked: None,
        }
    }

    /// Chooses the candidates. `pools` is the number of pools of the ADD.
    pub(super) fn look_from(
        &mut self,
        places: &RotationPlaces,
        pools: usize,
        engine_remembers: bool,
    ) {
        if self.pool.requested.is_some() {
            return;
        }
        let place = places.read(self.name, self.rotation);
        self.last = place.last;
        self.engine_remembers = engine_remembers;
        if engine_remembers {
            // On one node, no two calls request the same address; each node begins at a different
            // one.
            let ranges = &self.pool.ranges;
            self.last = place.last.or_else(|| places.first(self.name, ranges));
            self.candidates = Candidates::next(ranges, self.last, free::AT_ONCE);
            return;
        }
        self.in_rotation = !place.is_busy;
        // One request reads the candidates, and a definition and a sticky key of each pool.
        let most = free::AT_ONCE.saturating_sub(pools) / pools;
        self.candidates = Candidates::of(&self.pool.ranges, place.last, most);
    }

    /// The reads of the sticky key and of the candidates' state.
    pub(super) fn first_reads(&self) -> impl Iterator<Item = Read> {
        let sticky = self.sticky_key().map(|key| sticky::read(self.name, key));
        let candidates = self.candidates.all();
        let states = candidates.map(|ip| free::is_reserved(self.name, ip));
        sticky.into_iter().chain(states)
    }

    /// Notes the answers to [`Self::first_reads`].
    pub(super) fn note_first<'f>(&mut self, found: &mut impl Iterator<Item = &'f Found>) {
        if self.sticky_key().is_some() {
            let found = found.next();
            self.remembered = found.and_then(|found| sticky::address(found, self.pool));
        }
        let ips: Vec<IpAddr> = self.candidates.all().collect();
        let free = free(ips.iter().copied(), found.by_ref().take(ips.len()));
        self.candidates.retain(|ip| free.contains(&ip));
    }

    /// The pool's name for messages.
    pub(super) fn describe(&self) -> String {
        self.pool.describe(self.network, self.index)
    }

    /// The pool's sticky key, unless an address is requested.
    fn sticky_key(&self) -> Option<&str> {
        let key = self.pool.sticky.as_deref();
        key.filter(|_| self.pool.requested.is_none())
    }

    /// Chooses the address to request. Searches further if no candidate is known to be free.
    pub(super) fn ask(&mut self, engine: &mut dyn Engine) -> Result<(), Error> {
        self.choose(engine, |_, _, _| true)
    }

    /// As [`Self::ask`], and notes the address, so that no other call of this node requests it.
    pub(super) fn claim(&mut self, engine: &mut dyn Engine) -> Result<(), Error> {
        self.choose(engine, |engine, pool, ip| engine.asks_for(pool, ip))
    }

    fn choose(
        &mut self,
        engine: &mut dyn Engine,
        is_ours: impl Fn(&mut dyn Engine, &str, IpAddr) -> bool,
    ) -> Result<(), Error> {
        if self.asked.is_some() {
            return Ok(());
        }
        self.asked = self.pool.requested.or(self.remembered);
        while self.asked.is_none() {
            if self.candidates.is_empty() {
                let from = self.last.filter(|_| self.in_rotation);
                self.candidates = free::search(engine, self.name, self.pool, from)?;
            }
            let Some(ip) = self.candidates.take(self.in_rotation) else {
                return Err(self
                    .pool
                    .exhausted(self.network, self.index, code::TRY_AGAIN_LATER));
            };
            if is_ours(engine, self.name, ip) {
                self.asked = Some(ip);
            } else {
                // Other calls of this node request the next addresses as well.
                self.candidates = Candidates::default();
            }
        }
        Ok(())
    }

    /// The candidates whose state is read if the change isn't made: the share of one pool among
    /// `pools`.
    pub(super) fn checked_again(&self, pools: usize) -> impl Iterator<Item = IpAddr> {
        self.candidates.all().take(free::AT_ONCE / 2 / pools)
    }

    /// Notes the state of the requested address and of the candidates, after a change that was not
    /// made.
    pub(super) fn note<'f>(
        &mut self,
        engine: &dyn Engine,
        found: &mut impl Iterator<Item = &'f Found>,
        pools: usize,
    ) -> Result<(), Error> {
        let Some(asked) = self.asked else {
            return Ok(());
        };
        let holder = found.next().and_then(Found::first);
        let checked: Vec<IpAddr> = self.checked_again(pools).collect();
        let free = free(checked.iter().copied(), found.by_ref().take(checked.len()));
        let is_free = |ip| free.contains(&ip) || !checked.contains(&ip);
        self.candidates.retain(is_free);
        if let Some(block) = found.next().and_then(Found::first) {
            return Err(Error::config(format!(
                "{} is given in blocks: nodes have some of it, such as {}; no address is given by itself before they are given back",
                self.describe(),
                engine.path(&block.key)
            )));
        }
        let Some(holder) = holder else {
            return Ok(());
        };
        if self.pool.requested == Some(asked) {
            return Err(Error::new(
                code::REQUESTED_TAKEN,
                format!(
                    "{asked}, requested of {}, is {} already",
                    self.describe(),
                    Holder::describe(&holder.value)
                ),
            ));
        }
        self.asked = None;
        if self.remembered == Some(asked) {
            self.remembered = None;
        } else {
            // Another caller reserved the address first. That caller also requests the next
            // addresses that this node has not seen reserved.
            self.in_rotation = false;
            if self.engine_remembers {
                self.candidates = Candidates::default();
            }
        }
        Ok(())
    }
}
