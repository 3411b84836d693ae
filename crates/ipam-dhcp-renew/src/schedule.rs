//! The times of the visits, in memory. After a start, every lease is renewed within a tenth of its
//! time, each at its own moment.

use std::collections::{BTreeMap, BTreeSet, btree_map, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chain::record::record_of;
use ipam_da_dhcp::Lease;

use crate::due::window;
use crate::records::RecordName;
use crate::visit::visit;

/// Number of attachments that are visited at once.
const AT_ONCE: usize = 64;

/// When each attachment is visited.
#[derive(Default)]
pub(crate) struct Schedule(BTreeMap<RecordName, Entry>);

/// An attachment.
struct Entry {
    due: Instant,
    /// True until the first visit after a start: all leases are renewed, not only those that are
    /// due.
    renews_all: bool,
}

impl Schedule {
    /// Takes note of new and removed records. At a start (`renews_all`), each one waits for its own
    /// moment.
    pub(crate) fn note(&mut self, names: BTreeSet<RecordName>, renews_all: bool) {
        self.0.retain(|name, _| names.contains(name));
        for name in names {
            if let btree_map::Entry::Vacant(new) = self.0.entry(name) {
                let own_moment = renews_all.then(|| first_moment(new.key())).flatten();
                let due = Instant::now() + own_moment.unwrap_or_default();
                new.insert(Entry { due, renews_all });
            }
        }
    }

    /// Visits the attachments whose time has come, [`AT_ONCE`] at a time. False if something is wrong
    /// with one of them.
    pub(crate) fn visit_due(&mut self) -> bool {
        let now = Instant::now();
        let all = self.0.iter_mut().filter(|(_, entry)| entry.due <= now);
        let mut due: Vec<(&RecordName, &mut Entry)> = all.collect();
        let mut is_well = true;
        for some in due.chunks_mut(AT_ONCE) {
            thread::scope(|scope| {
                let visits = some
                    .iter_mut()
                    .map(|(name, entry)| scope.spawn(|| entry.visit(name)));
                let visits: Vec<_> = visits.collect();
                for visit in visits {
                    is_well &= visit.join().unwrap_or(false);
                }
            });
        }
        is_well
    }
}

impl Entry {
    /// Returns false if something is wrong.
    fn visit(&mut self, name: &RecordName) -> bool {
        let visited = visit(name, self.renews_all);
        let (Ok(next) | Err(next)) = visited;
        self.due = Instant::now() + next;
        self.renews_all = false;
        visited.is_ok()
    }
}

/// The time until an attachment's own moment within a tenth of its lease, by the clock. A daemon
/// that is started again and again asks for a lease once in each tenth. `None` without a lease.
fn first_moment(name: &RecordName) -> Option<Duration> {
    let listed = record_of(&name.state_dir, &name.network, &name.attachment);
    let record = listed.ok()??.content.ok()?;
    let leases = Lease::of_answer(record.answer()).ok()?;
    let window = leases.iter().map(window).min()?.as_millis();
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_millis() % window;
    let own = u128::from(hasher.finish()) % window;
    let wait = (window + own - now) % window;
    u64::try_from(wait).map(Duration::from_millis).ok()
}
