//! Chooses the address of one pool: what is known of its addresses, and which one to ask for.

use std::net::IpAddr;

use cluster::{Holder, Keys};
use cni::{Error, NetworkName, code};
use etcd::{Client, Range, RangeAnswer};
use ipam::Pool;

use crate::candidates::Candidates;
use crate::last_given::LastGiven;
use crate::{sticky, view};

/// A pool of the ADD, and what is known of its addresses.
pub(crate) struct Choice<'p> {
    pub(crate) pool: &'p Pool,
    /// Its name in etcd's keys.
    pub(crate) name: &'p str,
    network: &'p NetworkName,
    /// Its place among the pools of the ADD.
    index: usize,
    pub(crate) rotation: usize,
    /// The requested address.
    requested: Option<IpAddr>,
    /// The address of its sticky key, until that is found reserved.
    pub(crate) remembered: Option<IpAddr>,
    candidates: Candidates,
    /// True while nobody else seems to ask for addresses.
    in_rotation: bool,
    /// The address that is asked for.
    pub(crate) asked: Option<IpAddr>,
}

impl<'p> Choice<'p> {
    /// The pool at this place of so many pools, and the addresses of it to look at.
    pub(crate) fn new(
        network: &'p NetworkName,
        index: usize,
        pool: &'p Pool,
        last_given: &LastGiven,
        pools: usize,
    ) -> Self {
        let name = pool.directory(network).as_str();
        let rotation = pool.rotation_index(network, index);
        let mut choice = Self {
            pool,
            name,
            network,
            index,
            rotation,
            requested: pool.requested,
            remembered: None,
            candidates: Candidates::default(),
            in_rotation: true,
            asked: None,
        };
        if pool.requested.is_none() {
            let place = last_given.read(name, rotation);
            choice.in_rotation = !place.is_busy;
            // One request reads them, and a definition and a sticky key of each pool.
            let most = view::AT_ONCE.saturating_sub(pools) / pools;
            choice.candidates = Candidates::of(&pool.ranges, place.last, most);
        }
        choice
    }

    /// The reads of the sticky key and of the candidates' state.
    pub(crate) fn first_reads(&self, keys: &Keys) -> impl Iterator<Item = Range> {
        let key = self.sticky_key();
        let sticky = key.map(|key| sticky::read(keys, self.name, key));
        let ips = self.candidates.all();
        sticky
            .into_iter()
            .chain(ips.map(|ip| view::is_reserved(keys, self.name, ip)))
    }

    /// Notes the answers of [`Self::first_reads`].
    pub(crate) fn note_first<'r>(&mut self, ranges: &mut impl Iterator<Item = &'r RangeAnswer>) {
        if self.sticky_key().is_some() {
            let answer = ranges.next();
            self.remembered = answer.and_then(|it| sticky::address(it, self.pool));
        }
        let ips: Vec<IpAddr> = self.candidates.all().collect();
        let answers = ranges.by_ref().take(ips.len());
        let free = view::free(ips.iter().copied(), answers);
        self.candidates.retain(|ip| free.contains(&ip));
    }

    /// The pool by name, for people.
    pub(crate) fn describe(&self) -> String {
        self.pool.describe(self.network, self.index)
    }

    /// The pool's sticky key, unless an address is requested.
    fn sticky_key(&self) -> Option<&str> {
        let key = self.pool.sticky.as_deref();
        key.filter(|_| self.requested.is_none())
    }

    /// Chooses the address to ask for; looks further if none is known to be free.
    pub(crate) fn ask(&mut self, client: &mut Client<'_>, keys: &Keys) -> Result<(), Error> {
        if self.asked.is_some() {
            return Ok(());
        }
        self.asked = self.requested.or(self.remembered);
        if self.asked.is_none() {
            self.asked = self.candidates.take(self.in_rotation);
        }
        if self.asked.is_none() {
            self.candidates = view::search(client, keys, self.name, self.pool)?;
            self.asked = self.candidates.take(false);
        }
        match self.asked {
            Some(_) => Ok(()),
            None => Err(self
                .pool
                .exhausted(self.network, self.index, code::TRY_AGAIN_LATER)),
        }
    }

    /// The candidates whose state the else-branch reads: as many as fit for one of so many
    /// pools.
    pub(crate) fn checked_again(&self, pools: usize) -> impl Iterator<Item = IpAddr> {
        self.candidates.all().take(view::AT_ONCE / 2 / pools)
    }

    /// Notes the else-branch's answers: the state of the address that was asked for, and of
    /// the candidates.
    pub(crate) fn note<'r>(
        &mut self,
        ranges: &mut impl Iterator<Item = &'r RangeAnswer>,
        pools: usize,
    ) -> Result<(), Error> {
        let Some(asked) = self.asked else {
            return Ok(());
        };
        let holder = ranges.next().and_then(|it| it.kvs.first());
        let checked: Vec<IpAddr> = self.checked_again(pools).collect();
        let answers = ranges.by_ref().take(checked.len());
        let free = view::free(checked.iter().copied(), answers);
        let is_free = |ip| free.contains(&ip) || !checked.contains(&ip);
        self.candidates.retain(is_free);
        if let Some(block) = ranges.next().and_then(|it| it.kvs.first()) {
            return Err(Error::config(format!(
                "{} is given in blocks: nodes have some of it, such as {}; no address is given by itself before they are given back",
                self.describe(),
                String::from_utf8_lossy(&block.key)
            )));
        }
        let Some(holder) = holder else {
            return Ok(());
        };
        if self.requested == Some(asked) {
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
            // Somebody else was faster.
            self.in_rotation = false;
        }
        Ok(())
    }
}
