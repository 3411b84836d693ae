//! ADD: one address from each pool, or none at all, in one transaction.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use cluster::{Cluster, Holder};
use cluster_client::{
    Asked, Identity, LatestState, Values, is_reconciled, read_marks, refuse_marks,
};
use cni::{Attachment, CHAIN_CALL, Call, Error, IpConfig, IpamResult, NetworkName, code};
use etcd::{Client, Compare, Op, Range, RangeAnswer, Txn};
use ipam::{Completion, Pool};

use crate::choice::Choice;
use crate::known_definitions::KnownDefinitions;
use crate::last_given::LastGiven;
use crate::{sticky, view};

/// Share of `etcd.timeout` that is kept for undoing an ADD that may have been made.
const FOR_UNDOING: f64 = 0.3;

/// Most pools of one ADD: each takes four comparisons of a transaction, and etcd takes 128.
const MOST_POOLS: usize = 30;

/// Transactions after which an ADD gives up: each has lost an address to somebody else, so
/// addresses are being given all the same.
const MOST_TRIES: u32 = 100;

/// Reserves an address from each pool for the attachment, and completes `prevResult` with
/// them, with `ipam.routes` and with `ipam.resolvConf`.
///
/// A failure leaves nothing behind, unless etcd can't be reached to take it back; the error
/// then says so. If the attachment holds an address of an earlier ADD, each failure is a
/// refusal with 110, so that no caller releases an address in use.
pub(crate) fn add(attachment: &Attachment, call: &Call<'_>) -> Result<IpamResult, Error> {
    let config = &call.config;
    let ipam = config.ipam()?;
    let cluster = Cluster::read(&ipam)?;
    let completion = Completion::read(config, &ipam)?;
    let mut client = cluster_client::client(&cluster, call)?;
    client.keep_in_reserve(FOR_UNDOING);
    let identity = Identity::of(&cluster, call, &mut client)?;
    let add = Add::new(&cluster, call, identity, attachment)?;
    let given = Asked::read(config).and_then(|asked| add.give_of(&mut client, &asked));
    match given {
        Ok(ips) => Ok(completion.with_ips(ips)),
        Err(error) if error.code == code::ALREADY_ALLOCATED => Err(error),
        Err(error) => Err(add.refuse_if_held(&mut client, error)),
    }
}

/// An ADD of one attachment.
pub(crate) struct Add<'a> {
    pub(crate) cluster: &'a Cluster,
    network: &'a NetworkName,
    pub(crate) attachment: &'a Attachment,
    pub(crate) identity: RefCell<Identity<'a>>,
    /// The value that is written for it, and for no other ADD.
    pub(crate) holder: Holder,
    last_given: LastGiven,
    latest_state: RefCell<LatestState>,
    pub(crate) reached_etcd: Cell<bool>,
}

/// What the first look has shown.
pub(crate) struct Seen {
    /// For each pool an address of it that the attachment holds in the same place of etcd,
    /// outside of the pool's ranges.
    held: Vec<Option<IpAddr>>,
    /// The conditions that no definition has changed since.
    are_unchanged: Vec<Compare>,
}

/// What was done with definitions that may be old.
pub(crate) enum Known<T> {
    /// They are etcd's.
    Same(T),
    /// Nothing was done: etcd has other ones, which are these.
    Redefined(Values),
}

impl<'a> Add<'a> {
    /// An ADD of this call, which hasn't begun.
    ///
    /// # Errors
    ///
    /// Code 5 for a file of the node that can't be read.
    pub(crate) fn new(
        cluster: &'a Cluster,
        call: &'a Call<'a>,
        identity: Identity<'a>,
        attachment: &'a Attachment,
    ) -> Result<Self, Error> {
        let network = call.config.name();
        let of_chain = Some(call.environment.text(CHAIN_CALL)).filter(|it| !it.is_empty());
        Ok(Self {
            identity: RefCell::new(identity),
            holder: Holder::new(&cluster.node, network.as_str(), attachment, of_chain),
            last_given: LastGiven::open(cluster),
            // Before the first look: other processes see later states meanwhile.
            latest_state: RefCell::new(LatestState::open(cluster)?),
            attachment,
            network,
            cluster,
            reached_etcd: Cell::new(false),
        })
    }

    /// Gives an address of each pool that is asked for. The definitions that an earlier ADD
    /// has read save a request, if they are still etcd's.
    fn give_of(&self, client: &mut Client<'_>, asked: &Asked) -> Result<Vec<IpConfig>, Error> {
        let keys = &self.cluster.keys;
        let remembered = KnownDefinitions::open(self.cluster);
        let known = remembered.read(asked);
        // Those that aren't valid may be by now.
        let mut values = match known.filter(|it| asked.pools(keys, it).is_ok()) {
            Some(values) => values,
            None => asked.fetch(client, keys)?,
        };
        for _ in 0..MOST_TRIES {
            let pools = asked.pools(keys, &values)?;
            match self.give(client, &pools, (asked, &values))? {
                Known::Same(ips) => {
                    remembered.write(asked, &values);
                    return Ok(ips);
                }
                Known::Redefined(now) => values = now,
            }
        }
        Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!(
                "the definitions of the pools of {} change all the time",
                self.attachment
            ),
        ))
    }

    fn give(
        &self,
        client: &mut Client<'_>,
        pools: &[Pool],
        known: (&Asked, &Values),
    ) -> Result<Known<Vec<IpConfig>>, Error> {
        let mut choices = self.choices(pools)?;
        let seen = match self.look(client, &mut choices, known)? {
            Known::Same(seen) => seen,
            Known::Redefined(values) => return Ok(Known::Redefined(values)),
        };
        let value = self.holder.to_value();
        for tried in 1..=MOST_TRIES {
            for choice in &mut choices {
                choice.ask(client, &self.cluster.keys)?;
            }
            let txn = self.transaction(&choices, &seen, &value);
            let answer = match client.txn(&txn) {
                Ok(answer) => answer,
                Err(error) => return Err(self.undo(client, error, &value)),
            };
            // An earlier transaction, whose answer was lost, may have been applied.
            let is_given = answer.succeeded || is_ours(answer.ranges().nth(3), &value);
            if is_given {
                tracing::debug!(tried, requests = client.requests(), "reserved");
                self.latest_state.borrow_mut().remember(client);
                return Ok(Known::Same(self.finish(client, &choices)));
            }
            let mut ranges = answer.ranges();
            let mut is_explained = !self.is_registered(client, ranges.next())?;
            let now_held = self.held_in(ranges.next(), &choices);
            if now_held.iter().any(Option::is_some) && now_held != seen.held {
                return Err(self.already(&now_held, &choices));
            }
            refuse_marks(&self.cluster.keys, ranges.next())?;
            for choice in &mut choices {
                choice.note(&mut ranges, pools.len())?;
                is_explained |= choice.asked.is_none();
            }
            if !is_explained {
                // What is left is a definition that was changed meanwhile.
                let (asked, _) = known;
                return Ok(Known::Redefined(asked.fetch(client, &self.cluster.keys)?));
            }
        }
        Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!(
                "others took {MOST_TRIES} addresses before {} got one",
                self.attachment
            ),
        ))
    }

    /// The pools of an ADD, and which of their addresses to look at.
    pub(crate) fn choices<'p>(&self, pools: &'p [Pool]) -> Result<Vec<Choice<'p>>, Error>
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
        let choice =
            |(index, pool)| Choice::new(self.network, index, pool, &self.last_given, pools.len());
        Ok(pools.iter().enumerate().map(choice).collect())
    }

    /// True if etcd still has this machine's registration; false if there is a new one, with
    /// which the transaction has to be tried again.
    pub(crate) fn is_registered(
        &self,
        client: &mut Client<'_>,
        answer: Option<&RangeAnswer>,
    ) -> Result<bool, Error> {
        let found = answer.and_then(|it| it.kvs.first());
        let found = found.map(|it| it.value.as_slice());
        self.identity.borrow_mut().verify(client, found)
    }

    /// The start of the keys of what the attachment holds.
    pub(crate) fn held_prefix(&self) -> String {
        let Cluster { keys, node, .. } = self.cluster;
        keys.attachment(node, self.network.as_str(), self.attachment)
    }

    /// Reads what the attachment holds, the sticky keys, and which candidates are free.
    /// Returns etcd's definitions, if they aren't the known ones.
    pub(crate) fn look(
        &self,
        client: &mut Client<'_>,
        choices: &mut [Choice<'_>],
        (asked, known): (&Asked, &Values),
    ) -> Result<Known<Seen>, Error> {
        let keys = &self.cluster.keys;
        let mut reads = vec![Range::prefix(self.held_prefix()).keys_only()];
        reads.extend(asked.reads(keys));
        for choice in &*choices {
            reads.extend(choice.first_reads(keys));
        }
        let answer = client.txn(&Txn::read(reads))?;
        self.reached_etcd.set(true);
        let latest_state = self.latest_state.borrow();
        latest_state.refuse_older(self.cluster, client)?;
        let mut ranges = answer.ranges();
        let held = ranges.next();
        let definitions: Vec<&RangeAnswer> = ranges.by_ref().take(known.len()).collect();
        let values = asked.values(definitions.iter().copied());
        if values != *known {
            return Ok(Known::Redefined(values));
        }
        let held = self.held_in(held, choices);
        let in_ranges = |(ip, choice): (&Option<IpAddr>, &Choice<'_>)| {
            ip.is_some_and(|ip| choice.pool.ranges.contains(ip))
        };
        if held.iter().zip(&*choices).any(in_ranges) {
            return Err(self.already(&held, choices));
        }
        for choice in choices {
            choice.note_first(&mut ranges);
        }
        let found = definitions.iter().filter_map(|it| it.kvs.first());
        let are_unchanged = found
            .map(|it| Compare::mod_revision(it.key.as_slice(), it.mod_revision))
            .collect();
        Ok(Known::Same(Seen {
            held,
            are_unchanged,
        }))
    }

    /// For each pool an address that the attachment holds under its name: one of its ranges,
    /// if there is one.
    fn held_in(&self, answer: Option<&RangeAnswer>, choices: &[Choice<'_>]) -> Vec<Option<IpAddr>> {
        let Cluster { keys, node, .. } = self.cluster;
        let kvs = answer.into_iter().flat_map(|it| &it.kvs);
        let held: Vec<_> = kvs
            .filter_map(|kv| keys.parse_held(node, &kv.key))
            .collect();
        let of_choice = |choice: &Choice<'_>| {
            let mut named = held.iter().filter(|it| it.pool.as_str() == choice.name);
            let first = named.clone().next();
            let in_ranges = named.find(|it| choice.pool.ranges.contains(it.ip));
            in_ranges.or(first).map(|it| it.ip)
        };
        choices.iter().map(of_choice).collect()
    }

    /// The transaction: this machine has the node's name, the definitions are those that were
    /// read, nobody has these addresses, and the attachment has none of these pools.
    pub(crate) fn transaction(&self, choices: &[Choice<'_>], seen: &Seen, value: &[u8]) -> Txn {
        let Cluster { keys, node, .. } = self.cluster;
        let network = self.network.as_str();
        let mut txn = Txn::default();
        let identity = self.identity.borrow();
        txn.when.push(identity.is_current());
        txn.when.extend(seen.are_unchanged.iter().cloned());
        // In the order in which the answers are read.
        txn.otherwise.push(Op::get(identity.read()));
        let held_keys = Range::prefix(self.held_prefix()).keys_only();
        txn.otherwise.push(Op::get(held_keys));
        txn.when.push(is_reconciled(keys));
        txn.otherwise.push(Op::get(read_marks(keys)));
        for (choice, held) in choices.iter().zip(&seen.held) {
            let Some(ip) = choice.asked else {
                continue;
            };
            let address = keys.address(choice.name, ip);
            txn.when.push(Compare::is_missing(address.as_str()));
            // Nodes may have blocks of the time when its definition had `block`.
            let blocks = keys.blocks(choice.name);
            txn.when.push(Compare::none_starts_with(blocks.as_str()));
            if held.is_none() {
                let prefix = keys.attachment_in(node, network, self.attachment, choice.name);
                txn.when.push(Compare::none_starts_with(prefix));
            }
            txn.then.push(Op::put(address.as_str(), value));
            let held = keys.held(node, network, self.attachment, choice.name, ip);
            txn.then.push(Op::put(held, value));
            txn.otherwise.push(Op::get(Range::key(address)));
            for ip in choice.checked_again(choices.len()) {
                txn.otherwise
                    .push(Op::get(view::is_reserved(keys, choice.name, ip)));
            }
            let a_block = Range::prefix(blocks).keys_only().limit(1);
            txn.otherwise.push(Op::get(a_block));
        }
        txn
    }

    /// Remembers what was given, and makes the result of it. Nothing of this can fail any
    /// more.
    fn finish(&self, client: &mut Client<'_>, choices: &[Choice<'_>]) -> Vec<IpConfig> {
        let mut ips = Vec::with_capacity(choices.len());
        for choice in choices {
            let Some(ip) = choice.asked else {
                continue;
            };
            let pool = choice.pool;
            // A sticky key's address is no step of the rotation.
            if choice.remembered != Some(ip) && pool.ranges.gives(ip) {
                self.last_given.write(choice.name, choice.rotation, ip);
            }
            if let Some(key) = pool.sticky.as_ref().filter(|_| pool.ranges.gives(ip)) {
                let remembered = sticky::remember(client, &self.cluster.keys, choice.name, key, ip);
                if let Err(error) = remembered {
                    tracing::warn!(key, %ip, %error, "the sticky key's address is not remembered");
                }
            }
            if let Some(range) = pool.ranges.range_of(ip) {
                let prefix = range.subnet().prefix_len();
                ips.push(IpConfig::new(ip, prefix, Some(range.gateway())));
            }
        }
        ips
    }
}

/// True if the key in the answer has this value.
fn is_ours(answer: Option<&RangeAnswer>, value: &[u8]) -> bool {
    answer.is_some_and(|it| it.kvs.first().is_some_and(|kv| kv.value == value))
}
