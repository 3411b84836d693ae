//! The search for a free address of a pool: by reading some of its addresses, then by listing it.

use std::net::IpAddr;

use cni::Error;

use crate::choice::Choice;
use crate::pools::NamedPool;
use crate::repetition::until_answered;
use crate::{AddressKey, Store, StoreError};

/// Number of addresses that are read together. An engine may read them one after the other.
const READ_TOGETHER: usize = 4;

/// To list a number of addresses costs an engine about as much as to read a 64th of them.
const LISTED_PER_READ: u128 = 64;

/// Fewest and most addresses that are read before a pool is listed.
const READS: [u128; 2] = [8, 256];

/// What a call knows of a pool's addresses.
pub(crate) struct Search<'p> {
    pool: &'p NamedPool,
    choice: Choice<'p>,
    /// Number of addresses that were found taken since the last list.
    found: u128,
}

impl<'p> Search<'p> {
    /// Begins at the place of the sticky key's hash, else at any place.
    pub(crate) fn new(pool: &'p NamedPool, sticky: Option<&'p str>) -> Self {
        Self {
            pool,
            choice: Choice::new(&pool.pool.ranges, sticky),
            found: 0,
        }
    }

    /// An address that isn't known to be taken; `None` if all are.
    pub(crate) fn candidate(&self) -> Option<IpAddr> {
        self.choice.candidate()
    }

    /// Notes an address that is taken.
    pub(crate) fn note_taken(&mut self, ip: IpAddr) {
        self.found += 1;
        self.choice.note_taken([ip]);
    }

    /// An address that was free a moment ago; `None` if all are taken.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(crate) fn free(&mut self, store: &mut dyn Store) -> Result<Option<IpAddr>, Error> {
        let most = (self.pool.pool.ranges.capacity() / LISTED_PER_READ).clamp(READS[0], READS[1]);
        // The second list has those, too, that were given under another pool's name.
        for name in [Some(self.pool.name.as_str()), None] {
            while self.found < most {
                // Nearly always, the first one is free.
                let number = if self.found == 0 { 1 } else { READ_TOGETHER };
                let candidates = self.choice.candidates(number).into_iter();
                let keys: Vec<AddressKey> = candidates.map(|ip| self.pool.key(ip)).collect();
                let held = until_answered(store, |store| store.read(&keys))?;
                for held in &held {
                    self.note_taken(held.key.ip);
                }
                let is_free = |key: &&AddressKey| held.iter().all(|held| held.key != **key);
                if held.len() < keys.len() || keys.is_empty() {
                    return Ok(keys.iter().find(is_free).map(|key| key.ip));
                }
            }
            let addresses = self.pool.addresses(name);
            let listed = until_answered(store, |store| store.taken(&addresses));
            let taken = listed.map_err(|error| self.unlisted(error))?;
            tracing::debug!(pool = self.pool.name, taken = taken.len(), "listed");
            self.choice.note_taken(taken);
            self.found = 0;
        }
        Ok(self.candidate())
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
