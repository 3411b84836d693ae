//! An engine in memory, with faults: lost requests, lost answers, late changes, a restored older
//! state.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use cluster::{
    Change, Condition, Engine, EngineError, Found, Group, Holding, Key, Kind, Moment, Outcome,
    Read, Stored, TimeLimit,
};
use fastrand::Rng;

/// Faults, each in percent of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A request is not executed.
    pub(crate) lost_requests: u8,
    /// A change is made, and its answer is lost.
    pub(crate) lost_answers: u8,
    /// A change is made after a later one, and its answer is lost.
    pub(crate) late: u8,
}

/// The objects, by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    objects: BTreeMap<Key, (Vec<u8>, i64, i64)>,
    revision: i64,
    late: Vec<Change>,
}

/// The store that all engines share.
#[derive(Default)]
pub(crate) struct Store(Mutex<State>);

impl Store {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// All objects with their values.
    pub(crate) fn objects(&self) -> Vec<(Key, Vec<u8>)> {
        let state = self.lock();
        let objects = state.objects.iter();
        objects
            .map(|(key, object)| (key.clone(), object.0.clone()))
            .collect()
    }

    /// Writes an object.
    pub(crate) fn put(&self, key: Key, value: &[u8]) {
        self.lock().apply(&Change {
            write: vec![(key, value.to_vec())],
            ..Change::default()
        });
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, key: &Key) {
        self.lock().objects.remove(key);
    }

    /// Makes the late changes.
    pub(crate) fn settle(&self) {
        let mut state = self.lock();
        for late in std::mem::take(&mut state.late) {
            state.apply(&late);
        }
    }

    /// The state now.
    pub(crate) fn snapshot(&self) -> State {
        self.lock().clone()
    }

    /// Restores an older state.
    pub(crate) fn restore(&self, state: State) {
        *self.lock() = state;
    }
}

fn is_in(group: &Group, key: &Key) -> bool {
    let of =
        |wanted: &Option<String>, pool: &String| wanted.as_ref().is_none_or(|name| name == pool);
    match (group, key) {
        (Group::Pools, Key::Pool(_))
        | (Group::Marks, Key::Mark(_))
        | (Group::Nodes, Key::Node(_)) => true,
        (Group::Addresses(wanted), Key::Address(pool, _))
        | (Group::Blocks(wanted), Key::Block(pool, _)) => of(wanted, pool),
        (Group::StickyKeys(wanted), Key::StickyKey(pool, _)) => wanted == pool,
        (Group::Held(holding), Key::Held(held)) => {
            let Holding {
                node,
                network,
                attachment,
                pool,
            } = holding;
            of(node, &held.node)
                && network
                    .as_ref()
                    .is_none_or(|network| *network == held.network)
                && attachment
                    .as_ref()
                    .is_none_or(|wanted| *wanted == held.attachment)
                && of(pool, &held.pool.to_string())
        }
        _ => false,
    }
}

impl State {
    fn group(&self, group: &Group) -> impl Iterator<Item = Stored> {
        let objects = self.objects.keys().filter(|key| is_in(group, key));
        objects.filter_map(|key| self.get(key))
    }

    fn get(&self, key: &Key) -> Option<Stored> {
        let (value, _, revision) = self.objects.get(key)?;
        Some(Stored {
            key: key.clone(),
            value: value.clone(),
            revision: *revision,
        })
    }

    fn answer(&self, read: &Read) -> Found {
        let objects: Vec<Stored> = match read {
            Read::Get(key) | Read::Exists(key) => self.get(key).into_iter().collect(),
            Read::First(group, _) | Read::Oldest(group, _) | Read::Count(group) => {
                self.group(group).collect()
            }
        };
        let number = objects.len() as u64;
        Found { objects, number }
    }

    fn holds(&self, condition: &Condition) -> bool {
        let since = |group: &Group, since: i64, created: bool| {
            let keys = self.objects.iter().filter(|(key, _)| is_in(group, key));
            let mut revisions = keys.map(|(_, object)| if created { object.1 } else { object.2 });
            revisions.all(|revision| revision <= since)
        };
        match condition {
            Condition::Missing(key) => self.get(key).is_none(),
            Condition::Value(key, value) => {
                self.get(key).is_some_and(|object| object.value == *value)
            }
            Condition::Revision(key, revision) => self
                .get(key)
                .is_some_and(|object| object.revision == *revision),
            Condition::Empty(group) => self.group(group).next().is_none(),
            Condition::NoneChangedSince(group, revision) => since(group, *revision, false),
            Condition::NoneCreatedSince(group, revision) => since(group, *revision, true),
        }
    }

    fn apply(&mut self, change: &Change) -> Outcome {
        let done = change
            .conditions
            .iter()
            .all(|condition| self.holds(condition))
            && !change.dry_run;
        if done {
            self.revision += 1;
            for (key, value) in &change.write {
                let created = self
                    .objects
                    .get(key)
                    .map_or(self.revision, |object| object.1);
                let object = (value.clone(), created, self.revision);
                self.objects.insert(key.clone(), object);
            }
            for key in &change.delete {
                self.objects.remove(key);
            }
        }
        let found = match done {
            true => Vec::new(),
            false => change
                .otherwise
                .iter()
                .map(|read| self.answer(read))
                .collect(),
        };
        Outcome {
            done,
            resent: false,
            found,
        }
    }
}

/// The engine of one call.
pub(crate) struct MemoryEngine<'a> {
    store: &'a Store,
    faults: Faults,
    random: Rng,
    time: TimeLimit,
    moment: Option<Moment>,
}

impl<'a> MemoryEngine<'a> {
    pub(crate) fn new(store: &'a Store, faults: Faults, seed: u64) -> Self {
        Self {
            store,
            faults,
            random: Rng::with_seed(seed),
            time: TimeLimit::new(std::time::Duration::from_secs(5)),
            moment: None,
        }
    }

    fn happens(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    fn unreachable(&mut self) -> Result<(), EngineError> {
        match self.happens(self.faults.lost_requests) {
            true => Err(EngineError::new(Kind::Unreachable, "the request is lost")),
            false => Ok(()),
        }
    }

    fn note(&mut self, state: &State) {
        let revision = state.revision;
        self.moment = Some(Moment {
            cluster: 1,
            revision,
        });
    }
}

impl Engine for MemoryEngine<'_> {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn path(&self, key: &Key) -> String {
        format!("{key:?}")
    }

    fn time(&mut self) -> &mut TimeLimit {
        &mut self.time
    }

    fn moment(&self) -> Option<Moment> {
        self.moment
    }

    fn read(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        self.unreachable()?;
        let store = self.store;
        let state = store.lock();
        self.note(&state);
        Ok(reads.iter().map(|read| state.answer(read)).collect())
    }

    fn list(&mut self, group: &Group, _: bool) -> Result<Vec<Stored>, EngineError> {
        self.unreachable()?;
        let store = self.store;
        let state = store.lock();
        self.note(&state);
        Ok(state.group(group).collect())
    }

    fn commit(&mut self, change: &Change) -> Result<Outcome, EngineError> {
        self.unreachable()?;
        let store = self.store;
        let mut state = store.lock();
        // A late change comes before this one.
        for late in std::mem::take(&mut state.late) {
            state.apply(&late);
        }
        let lost = || Err(EngineError::new(Kind::Lost, "the answer is lost"));
        if self.happens(self.faults.late) {
            state.late.push(change.clone());
            return lost();
        }
        let outcome = state.apply(change);
        self.note(&state);
        match self.happens(self.faults.lost_answers) {
            true => lost(),
            false => Ok(outcome),
        }
    }
}
