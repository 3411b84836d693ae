//! An engine between whose requests others change the store, and whose answers are lost.

use cluster::{
    Change, Engine, EngineError, Found, Group, Key, Kind, Moment, Outcome, Read, Stored, TimeLimit,
};

use super::memory_engine::{Faults, MemoryEngine, Store};

/// What others do before a change.
type Meanwhile<'a> = Box<dyn FnMut(&Store, &Change) + 'a>;

/// The engine. The registration of a node is not interrupted, unless a test asks for it.
pub(crate) struct Interrupted<'a> {
    store: &'a Store,
    engine: MemoryEngine<'a>,
    meanwhile: Meanwhile<'a>,
    /// True if registrations are interrupted as well.
    pub(crate) interrupts_registrations: bool,
    /// True if each change is sent twice, as after a lost answer.
    pub(crate) sends_twice: bool,
    /// True if changes are lost.
    pub(crate) loses_changes: bool,
    /// True if no request reaches it.
    pub(crate) is_unreachable: bool,
    /// True if the answer to the next change that is made is lost.
    pub(crate) loses_an_answer: bool,
    /// The number of requests.
    pub(crate) requests: usize,
}

impl<'a> Interrupted<'a> {
    /// An engine without interruptions.
    pub(crate) fn new(store: &'a Store) -> Self {
        Self::with(store, |_, _| ())
    }

    /// An engine before whose changes others do this.
    pub(crate) fn with(store: &'a Store, meanwhile: impl FnMut(&Store, &Change) + 'a) -> Self {
        Self {
            store,
            engine: MemoryEngine::new(store, Faults::default(), 1),
            meanwhile: Box::new(meanwhile),
            interrupts_registrations: false,
            sends_twice: false,
            loses_changes: false,
            is_unreachable: false,
            loses_an_answer: false,
            requests: 0,
        }
    }

    /// An engine before whose first change others do this.
    pub(crate) fn once(store: &'a Store, meanwhile: impl FnOnce(&Store, &Change) + 'a) -> Self {
        let mut meanwhile = Some(meanwhile);
        Self::with(store, move |store, change| {
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile(store, change);
            }
        })
    }

    /// An engine that sends each change twice.
    pub(crate) fn sending_twice(store: &'a Store) -> Self {
        Self {
            sends_twice: true,
            ..Self::new(store)
        }
    }
}

impl Interrupted<'_> {
    fn note_request(&mut self) -> Result<(), EngineError> {
        self.requests += 1;
        match self.is_unreachable {
            true => Err(EngineError::new(Kind::Unreachable, "no route to it")),
            false => Ok(()),
        }
    }
}

impl Engine for Interrupted<'_> {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn path(&self, key: &Key) -> String {
        self.engine.path(key)
    }

    fn time(&mut self) -> &mut TimeLimit {
        self.engine.time()
    }

    fn moment(&self) -> Option<Moment> {
        self.engine.moment()
    }

    fn read(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
        self.note_request()?;
        self.engine.read(reads)
    }

    fn list(&mut self, group: &Group, with_values: bool) -> Result<Vec<Stored>, EngineError> {
        self.note_request()?;
        self.engine.list(group, with_values)
    }

    fn commit(&mut self, change: &Change) -> Result<Outcome, EngineError> {
        self.note_request()?;
        let mut written = change.write.iter();
        let is_registration = written.any(|(key, _)| matches!(key, Key::Node(_)));
        if is_registration && !self.interrupts_registrations {
            return self.engine.commit(change);
        }
        (self.meanwhile)(self.store, change);
        if self.loses_changes {
            return Err(EngineError::new(Kind::Lost, "the change is lost"));
        }
        if self.sends_twice {
            self.engine.commit(change)?;
        }
        let outcome = self.engine.commit(change)?;
        if outcome.done && std::mem::take(&mut self.loses_an_answer) {
            return Err(EngineError::new(Kind::Lost, "the answer is lost"));
        }
        Ok(Outcome {
            resent: self.sends_twice,
            ..outcome
        })
    }
}
