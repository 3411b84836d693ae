//! ADD: reserves one address from each pool, or none at all.

use std::net::IpAddr;

use cni::{Attachment, CHAIN_CALL, Call, Error, IpConfig, IpamResult, NetworkName};
use ipam::{Completion, Pool};

use super::choice::Choice;
use super::rotation_place::RotationPlaces;
use super::sticky;
use crate::pool::asked::{AskedPools, Values};
use crate::pool::known_definitions::KnownDefinitions;
use crate::restore::{LatestState, refuse_marks};
use crate::try_again;
use crate::value::Holder;
use crate::{Condition, Engine, Found, Holding, Identity, Key, Node, Read};

/// Share of `timeout` that is kept for undoing an ADD whose answer is lost.
const FOR_UNDOING: f64 = 0.3;

/// Most pools of one ADD: each takes four conditions, and etcd accepts 128.
const MOST_POOLS: usize = 30;

/// Most changes that an ADD tries. Each try has lost an address to another caller, so the pools
/// still give addresses.
const MOST_TRIES: u32 = 100;

/// Reserves an address from each pool for the attachment, and adds the addresses, `ipam.routes`
/// and `ipam.resolvConf` to `prevResult`.
///
/// After a failure, nothing stays reserved, unless the engine can't be reached to undo the ADD.
/// The error then says so.
///
/// # Errors
///
/// Code 11 if a pool has no free address; code 110 if the attachment already has an address of a
/// pool; code 111 if a requested address is reserved; code 7 for an invalid configuration; those
/// of the engine.
pub fn add(
    engine: &mut dyn Engine,
    node: &Node,
    attachment: &Attachment,
    call: &Call<'_>,
) -> Result<IpamResult, Error> {
    let config = &call.config;
    let completion = Completion::read(config, &config.ipam()?)?;
    engine.time().keep_for_undoing(FOR_UNDOING);
    let mut addition = Addition::new(node, attachment, call, engine)?;
    let ips = addition.give(engine, &AskedPools::read(config)?)?;
    Ok(completion.with_ips(ips))
}

/// An ADD of one attachment.
pub(super) struct Addition<'a> {
    pub(super) node: &'a Node,
    pub(super) network: &'a NetworkName,
    pub(super) attachment: &'a Attachment,
    pub(super) identity: Identity<'a>,
    /// The value of this ADD's reservations. It is unique to this ADD.
    pub(super) holder: Holder,
    places: RotationPlaces,
    latest_state: LatestState,
}

/// Result of the first look.
pub(super) struct Seen {
    /// For each pool, the attachment's address under the pool's name that is in none of the pool's
    /// ranges.
    pub(super) held: Vec<Option<IpAddr>>,
    /// The conditions that no definition has changed since the look.
    pub(super) are_unchanged: Vec<Condition>,
}

/// Outcome of an attempt with definitions that may be old.
pub(super) enum Known<T> {
    /// The definitions are the engine's.
    Current(T),
    /// Nothing was done, because the engine has these definitions instead.
    Changed(Values),
}

/// Outcome of a reservation.
enum Reserved {
    /// An address of each pool is reserved.
    All,
    /// Nothing is reserved: a definition was changed.
    Changed,
    /// Nothing is reserved: no free address of a pool was found, for this reason.
    Exhausted(Error),
}

impl<'a> Addition<'a> {
    /// An ADD that hasn't begun. Registers the node if it isn't registered yet.
    pub(super) fn new(
        node: &'a Node,
        attachment: &'a Attachment,
        call: &'a Call<'_>,
        engine: &mut dyn Engine,
    ) -> Result<Self, Error> {
        let network = call.config.name();
        let of_chain = Some(call.environment.text(CHAIN_CALL)).filter(|call| !call.is_empty());
        Ok(Self {
            identity: Identity::of(node, call.environment, engine)?,
            holder: Holder::new(&node.name, network.as_str(), attachment, of_chain),
            places: RotationPlaces::open(node),
            // Read before the first look, because other processes may note later states after it.
            latest_state: LatestState::open(node)?,
            attachment,
            network,
            node,
        })
    }

    /// Reserves an address of each pool. Definitions from an earlier ADD save a request, if the
    /// engine still has them.
    fn give(
        &mut self,
        engine: &mut dyn Engine,
        asked: &AskedPools,
    ) -> Result<Vec<IpConfig>, Error> {
        let remembered = KnownDefinitions::open(self.node);
        let known = remembered.read(asked);
        // Invalid cached definitions are ignored: they may have been corrected in the engine.
        let known = known.filter(|known| asked.pools(engine, known).is_ok());
        let mut may_be_old = known.is_some() && engine.remembers();
        let mut values = match known {
            Some(values) => values,
            None => asked.fetch(engine)?,
        };
        for _ in 0..MOST_TRIES {
            let pools = asked.pools(engine, &values)?;
            let mut choices = self.choices(&pools, engine.remembers())?;
            values = match self.look(engine, &mut choices, asked, &values)? {
                Known::Changed(now) => now,
                Known::Current(seen) => match self.reserve(engine, &mut choices, &seen)? {
                    Reserved::All => {
                        remembered.write(asked, &values);
                        return Ok(self.finish(engine, &choices));
                    }
                    Reserved::Changed => asked.fetch(engine)?,
                    Reserved::Exhausted(error) if may_be_old => {
                        let now = asked.fetch(engine)?;
                        if now == values {
                            return Err(error);
                        }
                        now
                    }
                    Reserved::Exhausted(error) => return Err(error),
                },
            };
            may_be_old = false;
        }
        Err(try_again(format!(
            "the definitions of the pools of {} change all the time",
            self.attachment
        )))
    }

    /// Reserves an address for each choice.
    fn reserve(
        &mut self,
        engine: &mut dyn Engine,
        choices: &mut [Choice<'_>],
        seen: &Seen,
    ) -> Result<Reserved, Error> {
        let value = self.holder.to_value();
        for tried in 1..=MOST_TRIES {
            for choice in &mut *choices {
                if let Err(error) = choice.claim(engine) {
                    return Ok(Reserved::Exhausted(error));
                }
            }
            let outcome = match engine.commit(&self.reservation(choices, seen)) {
                Ok(outcome) => outcome,
                Err(error) => return Err(self.undo(engine, error, &value)),
            };
            // The change may have been made by the first attempt, whose answer was lost.
            let address = outcome.found.get(3).and_then(Found::first);
            if outcome.done || address.is_some_and(|address| address.value == value) {
                tracing::debug!(tried, "reserved");
                // Some engines show their revision only in the answer to a change.
                if let Err(error) = self.latest_state.refuse_older(self.node, engine) {
                    return Err(self.take_back(engine, error, &value));
                }
                self.latest_state.remember(engine);
                return Ok(Reserved::All);
            }
            let mut found = outcome.found.iter();
            let mut is_explained = !self.is_registered(engine, found.next())?;
            let now_held = self.held_in(found.next(), choices);
            if now_held.iter().any(Option::is_some) && now_held != seen.held {
                return Err(self.already(&now_held, choices));
            }
            refuse_marks(engine, found.next())?;
            let pools = choices.len();
            for choice in &mut *choices {
                choice.note(engine, &mut found, pools)?;
                is_explained |= choice.asked.is_none();
            }
            if !is_explained {
                // The only remaining reason is a changed definition.
                return Ok(Reserved::Changed);
            }
        }
        Err(try_again(format!(
            "others took {MOST_TRIES} addresses before {} got one",
            self.attachment
        )))
    }

    /// The pools of an ADD, each with its candidates.
    pub(super) fn choices<'p>(
        &self,
        pools: &'p [Pool],
        engine_remembers: bool,
    ) -> Result<Vec<Choice<'p>>, Error>
    where
        'a: 'p,
    {
        if pools.is_empty() {
            return Err(Error::config(
                "prevResult.pools is missing or empty: a selector must stand before this allocator",
            ));
        }
        if pools.len() > MOST_POOLS {
            return Err(Error::config(format!(
                "prevResult.pools has {} pools; an ADD takes at most {MOST_POOLS}",
                pools.len()
            )));
        }
        let choice = |(index, pool)| {
            let mut choice = Choice::new(self.network, index, pool);
            choice.look_from(&self.places, pools.len(), engine_remembers);
            choice
        };
        Ok(pools.iter().enumerate().map(choice).collect())
    }

    /// True if the engine still has this machine's registration; false if the node has registered
    /// again, and the change must be tried again.
    pub(super) fn is_registered(
        &mut self,
        engine: &mut dyn Engine,
        found: Option<&Found>,
    ) -> Result<bool, Error> {
        self.identity.verify(engine, found.and_then(Found::first))
    }

    /// Selects the addresses that the attachment holds.
    pub(super) fn holding(&self) -> Holding {
        Holding::of_attachment(&self.node.name, self.network, self.attachment)
    }

    /// Reads the attachment's addresses, the sticky keys, and which candidates are free.
    pub(super) fn look(
        &mut self,
        engine: &mut dyn Engine,
        choices: &mut [Choice<'_>],
        asked: &AskedPools,
        known: &Values,
    ) -> Result<Known<Seen>, Error> {
        let mut reads = vec![self.held_read()];
        // Otherwise the change verifies the definitions, without another request.
        let verified = if engine.remembers() {
            &[]
        } else {
            known.as_slice()
        };
        reads.extend(asked.reads().take(verified.len()));
        reads.extend(choices.iter().flat_map(Choice::first_reads));
        let found = engine.read(&reads)?;
        self.latest_state.refuse_older(self.node, engine)?;
        let held = self.held_in(found.first(), choices);
        let (definitions, states) = found[1..].split_at(verified.len());
        let values = definitions
            .iter()
            .map(|found| Some(found.first()?.value.clone()));
        let values: Values = values.collect();
        if values != verified {
            return Ok(Known::Changed(values));
        }
        let in_ranges = |(ip, choice): (&Option<IpAddr>, &Choice<'_>)| {
            ip.is_some_and(|ip| choice.pool.ranges.contains(ip))
        };
        if held.iter().zip(&*choices).any(in_ranges) {
            return Err(self.already(&held, choices));
        }
        let mut states = states.iter();
        for choice in choices {
            choice.note_first(&mut states);
        }
        Ok(Known::Current(Seen {
            held,
            are_unchanged: asked.are_unchanged(known),
        }))
    }

    /// For each pool, an address that the attachment holds under the pool's name; one in the
    /// pool's ranges, if there is one.
    fn held_in(&self, found: Option<&Found>, choices: &[Choice<'_>]) -> Vec<Option<IpAddr>> {
        let objects = found.into_iter().flat_map(|found| &found.objects);
        let held: Vec<_> = objects
            .filter_map(|stored| match &stored.key {
                Key::Held(held) => Some(held),
                _ => None,
            })
            .collect();
        let of_choice = |choice: &Choice<'_>| {
            let mut named = held.iter().filter(|held| held.pool.as_str() == choice.name);
            let first = named.clone().next();
            let in_ranges = named.find(|held| choice.pool.ranges.contains(held.ip));
            in_ranges.or(first).map(|held| held.ip)
        };
        choices.iter().map(of_choice).collect()
    }

    /// A read of the addresses that the attachment holds.
    pub(super) fn held_read(&self) -> Read {
        Read::First(crate::Group::Held(self.holding()), 1000)
    }

    /// Writes the rotation places and the sticky keys, and returns the result. A failure here is
    /// only logged.
    fn finish(&self, engine: &mut dyn Engine, choices: &[Choice<'_>]) -> Vec<IpConfig> {
        let mut ips = Vec::with_capacity(choices.len());
        for choice in choices {
            let Some(ip) = choice.asked else {
                continue;
            };
            let pool = choice.pool;
            // An address from a sticky key doesn't advance the rotation.
            if choice.remembered != Some(ip) && pool.ranges.gives(ip) {
                self.places.write(choice.name, choice.rotation, ip);
            }
            if let Some(key) = pool.sticky.as_ref().filter(|_| pool.ranges.gives(ip))
                && let Err(error) = sticky::remember(engine, choice.name, key, ip)
            {
                tracing::warn!(key, %ip, %error, "the sticky key's address is not remembered");
            }
            if let Some(range) = pool.ranges.range_of(ip) {
                let prefix = range.subnet().prefix_len();
                ips.push(IpConfig::new(ip, prefix, Some(range.gateway())));
            }
        }
        ips
    }
}
