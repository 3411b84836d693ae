//! The times of the visits, in memory. After a start, every lease is renewed within a tenth of its
//! time, each at its own moment.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chain::record::record_of;
use ipam_da_dhcp::Lease;

use crate::due::window;
use crate::records::RecordName;

/// Number of attachments that are visited at once.
const AT_ONCE: usize = 64;

/// When each attachment is visited.
#[derive(Default)]
pub(crate) struct Schedule(BTreeMap<RecordName, Entry>);

/// An attachment.
pub(crate) struct Entry {
    /// The time of the next visit.
    pub(crate) due: Instant,
    /// True until the first visit after a start: all leases are renewed, not only those that are
    /// due.
    pub(crate) renews_all: bool,
    /// False if something was wrong in the last visit.
    pub(crate) is_well: bool,
}

impl Schedule {
    /// Takes note of new and removed records. At a start (`renews_all`), each one waits for its own
    /// moment.
    pub(crate) fn note(&mut self, names: BTreeSet<RecordName>, renews_all: bool) {
        self.0.retain(|name, _| names.contains(name));
        for name in names {
            self.0.entry(name).or_insert_with_key(|name| {
                let own_moment = renews_all.then(|| first_moment(name)).flatten();
                Entry {
                    due: Instant::now() + own_moment.unwrap_or_default(),
                    renews_all,
                    is_well: false,
                }
            });
        }
    }

    /// Visits the attachments whose time has come, [`AT_ONCE`] at a time. False if something is wrong
    /// with one of them.
    pub(crate) fn visit_due(&mut self) -> bool {
        let now = Instant::now();
        let all = self.0.iter_mut().filter(|(_, entry)| entry.due <= now);
        let mut due: Vec<(&RecordName, &mut Entry)> = all.collect();
        for some in due.chunks_mut(AT_ONCE) {
            thread::scope(|scope| {
                let visits = some
                    .iter_mut()
                    .map(|(name, entry)| scope.spawn(|| entry.visit(name)));
                let visits: Vec<_> = visits.collect();
                for visit in visits {
                    // A defect that is met in one visit ends no other.
                    let _ = visit.join();
                }
            });
        }
        due.iter().all(|(_, entry)| entry.is_well)
    }
}

/// The time until an attachment's own moment within a tenth of its lease, by the clock. A daemon
/// that is started again and again asks for a lease once in each tenth. `None` without a lease.
fn first_moment(name: &RecordName) -> Option<Duration> {
    let listed = record_of(&name.state_dir, &name.network, &name.attachment);
    let record = listed.ok()??.content.ok()?;
    let leases = Lease::of_answer(record.answer()).ok()?;
    let window = leases.iter().map(window).min()?.as_millis();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let own = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
    let wait = (u128::from(own) + window - now.as_millis() % window) % window;
    u64::try_from(wait).map(Duration::from_millis).ok()
}
