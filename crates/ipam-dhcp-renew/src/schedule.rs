//! The times of the visits, in memory. After a start, every lease is renewed within a tenth of its
//! time, each at its own moment.

use std::collections::{BTreeMap, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::records::{Places, RecordName};
use crate::visit::{Asks, Visited, visit};

/// Number of attachments that are visited at once.
const AT_ONCE: usize = 32;

/// When each attachment is visited.
#[derive(Default)]
pub(crate) struct Schedule {
    entries: BTreeMap<RecordName, Entry>,
    has_looked: bool,
}

/// An attachment.
struct Entry {
    due: Instant,
    stage: Stage,
}

/// How far a start of the daemon has got with an attachment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was there when the daemon started, and wasn't visited since.
    Found,
    /// Its next visit renews all leases.
    Renewing,
    /// Only what is due is renewed.
    Followed,
}

impl Schedule {
    /// Takes note of new and removed records.
    pub(crate) fn look(&mut self, places: &Places) {
        let Some(names) = places.attachments() else {
            return;
        };
        self.entries.retain(|name, _| names.contains(name));
        let stage = if self.has_looked {
            Stage::Followed
        } else {
            Stage::Found
        };
        self.has_looked = true;
        for name in names {
            let due = Instant::now();
            self.entries.entry(name).or_insert(Entry { due, stage });
        }
    }

    /// Visits the attachments whose time has come, those that wait longest first, and at most
    /// [`AT_ONCE`]. False if something is wrong with one of them.
    pub(crate) fn visit_due(&mut self) -> bool {
        let now = Instant::now();
        let mut due: Vec<(&RecordName, &mut Entry)> = self.entries.iter_mut().collect();
        due.retain(|(_, entry)| entry.due <= now);
        due.sort_by_key(|(_, entry)| entry.due);
        due.truncate(AT_ONCE);
        thread::scope(|scope| {
            let visits: Vec<_> = due
                .into_iter()
                .map(|(name, entry)| scope.spawn(|| entry.visit(name)))
                .collect();
            let ended = visits
                .into_iter()
                .map(|visit| visit.join().unwrap_or(false));
            ended.filter(|is_well| !is_well).count() == 0
        })
    }

    /// The time until the next visit.
    pub(crate) fn until_next(&self) -> Duration {
        let next = self.entries.values().map(|entry| entry.due).min();
        next.map_or(Duration::MAX, |due| {
            due.saturating_duration_since(Instant::now())
        })
    }
}

impl Entry {
    fn visit(&mut self, name: &RecordName) -> bool {
        let Visited {
            next,
            spread,
            is_well,
        } = visit(
            name,
            match self.stage {
                Stage::Found => Asks::Nothing,
                Stage::Renewing => Asks::All,
                Stage::Followed => Asks::WhatIsDue,
            },
        );
        let next = match (self.stage, spread) {
            (Stage::Found, Some(spread)) => {
                self.stage = Stage::Renewing;
                next.min(moment(name, spread))
            }
            _ => {
                self.stage = Stage::Followed;
                next
            }
        };
        self.due = Instant::now() + next;
        is_well
    }
}

/// Visits all attachments once, and renews what is due. False if something is wrong with one.
pub(crate) fn visit_once(places: &Places) -> bool {
    let Some(names) = places.attachments() else {
        return false;
    };
    let names: Vec<RecordName> = names.into_iter().collect();
    let is_well = |name: &RecordName| visit(name, Asks::WhatIsDue).is_well;
    let mut all_well = true;
    for some in names.chunks(AT_ONCE) {
        all_well &= thread::scope(|scope| {
            let visits: Vec<_> = some
                .iter()
                .map(|name| scope.spawn(|| is_well(name)))
                .collect();
            let ended = visits
                .into_iter()
                .map(|visit| visit.join().unwrap_or(false));
            ended.filter(|is_well| !is_well).count() == 0
        });
    }
    all_well
}

/// The time until an attachment's own moment within a window of the clock. A daemon that is started
/// again and again asks for a lease once in each window.
fn moment(name: &RecordName, window: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let window = window.as_millis().max(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_millis() % window;
    let own = u128::from(hasher.finish()) % window;
    let wait = (window + own - now) % window;
    Duration::from_millis(u64::try_from(wait).unwrap_or_default())
}
