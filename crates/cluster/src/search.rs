//! The search for a free address of a pool: among some of its addresses, then among all.
//!
//! First, some addresses are tried: 8 to 256, by the size of the pool. If all of them are taken, the
//! addresses that were given under the pool's name are listed, then all in its ranges. The claim
//! decides, so a look may be old; the last list must not.

use std::net::IpAddr;

use cni::{Error, code};

use crate::choice::Choice;
use crate::pools::CallPool;
use crate::repetition::until_answered;
use crate::{Among, Store, StoreError};

/// Number of addresses that are looked for together.
const TOGETHER: usize = 16;

/// To list a number of addresses costs an engine about as much as to look for a 64th of them.
const LISTED_PER_READ: u128 = 64;

/// Fewest and most addresses that are looked for before a pool is listed.
const READS: [usize; 2] = [8, 256];

/// What a call knows of a pool's addresses.
pub(crate) struct Search<'p> {
    pool: CallPool<'p>,
    choice: Choice<'p>,
    /// Number of addresses that were found taken since the last list.
    found: usize,
    /// Number of addresses that are looked for before the next list.
    most: usize,
    /// The next list.
    next: Among<'p>,
}

impl<'p> Search<'p> {
    /// Begins at the place of the sticky key's hash, else at any place.
    pub(crate) fn new(pool: CallPool<'p>, sticky: Option<&'p str>) -> Self {
        let part = pool.pool.ranges.capacity() / LISTED_PER_READ;
        let most = usize::try_from(part).unwrap_or(usize::MAX);
        Self {
            pool,
            choice: Choice::new(&pool.pool.ranges, sticky),
            found: 0,
            most: most.clamp(READS[0], READS[1]),
            next: Among::Named(pool.name()),
        }
    }

    /// An address that isn't known to be taken; `None` if all are.
    pub(crate) fn candidate(&self) -> Option<IpAddr> {
        self.choice.candidates(1).pop()
    }

    /// The next address to try after one that is taken, as [`Self::free`].
    ///
    /// # Errors
    ///
    /// Code 11 if the time is up; those of the store.
    pub(crate) fn after(
        &mut self,
        taken: IpAddr,
        store: &mut dyn Store,
    ) -> Result<Option<IpAddr>, Error> {
        self.found += 1;
        self.choice.note_taken([taken]);
        if store.time().left().is_zero() {
            let pool = self.pool.describe();
            let why = format!("others took the addresses of {pool} first");
            return Err(Error::new(code::TRY_AGAIN_LATER, why));
        }
        self.free(store)
    }

    /// An address that was free a moment ago; `None` if all are taken.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn free(&mut self, store: &mut dyn Store) -> Result<Option<IpAddr>, Error> {
        while self.found < self.most {
            let some = self.choice.candidates(TOGETHER.min(self.most - self.found));
            if some.is_empty() {
                break;
            }
            let taken = self.taken(store, Among::Some(&some))?;
            let free = some.iter().copied().find(|ip| !taken.contains(ip));
            self.found += taken.len();
            self.choice.note_taken(taken);
            if free.is_some() {
                return Ok(free);
            }
        }
        let taken = self.taken(store, self.next);
        let taken = taken.map_err(|error| self.unlisted(error))?;
        tracing::debug!(pool = self.pool.name(), taken = taken.len(), "listed");
        // What was only looked at may have been released since.
        self.choice.replace_taken(taken);
        self.found = 0;
        if let Among::All = self.next {
            // Whoever has taken a free one of this list meanwhile, the others of it are still the
            // best candidates.
            self.most = usize::MAX;
        }
        // This one has those, too, that were given under another pool's name.
        self.next = Among::All;
        Ok(self.candidate())
    }

    fn taken(&self, store: &mut dyn Store, among: Among<'_>) -> Result<Vec<IpAddr>, StoreError> {
        until_answered(store, |store| store.taken(self.pool.pool, among))
    }

    /// The error of a list, with what is known of the pool: a full one may be too large to be listed
    /// in time.
    fn unlisted(&self, error: StoreError) -> Error {
        let (found, pool) = (self.found, self.pool.describe());
        let msg = format!("{error}; {found} addresses of {pool} were tried, all reserved");
        Error {
            msg,
            ..error.into()
        }
    }
}
