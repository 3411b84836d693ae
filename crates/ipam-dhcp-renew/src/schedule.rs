//! The times of the visits, in memory. After a start, every attachment is visited, and its leases
//! are renewed at its own moment soon after.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ipam_da_dhcp::Lease;

use crate::records::{Look, RecordName};

/// Number of attachments that are visited at once.
const AT_ONCE: usize = 64;

/// When each attachment is visited.
#[derive(Default)]
pub(crate) struct Schedule(BTreeMap<RecordName, Entry>);

/// An attachment.
pub(crate) struct Entry {
    /// The time of the next visit.
    pub(crate) due: Instant,
    /// True from a start until the leases are known: each is renewed at its own moment.
    pub(crate) is_start: bool,
    /// The leases of its record.
    pub(crate) recorded: Vec<Lease>,
    /// The same leases, as servers have granted them last.
    pub(crate) leases: Vec<Lease>,
    /// False if something was wrong in the last visit.
    pub(crate) is_well: bool,
}

impl Schedule {
    /// Takes note of new and removed records, at the daemon's start or later.
    pub(crate) fn note(&mut self, look: Look, is_start: bool) {
        let is_gone =
            |name: &RecordName| look.whole.contains(&name.state_dir) && !look.names.contains(name);
        self.0.retain(|name, _| !is_gone(name));
        for name in look.names {
            self.0.entry(name).or_insert_with(|| Entry {
                due: Instant::now(),
                is_start,
                recorded: Vec::new(),
                leases: Vec::new(),
                is_well: false,
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

/// The time until an attachment's own moment within a window, by the clock. A daemon that is
/// started again and again asks for a lease once in each window.
pub(crate) fn own_moment(name: &RecordName, window: Duration) -> Duration {
    let own = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let window = window.as_millis();
    let wait = (u128::from(own) + window - now.unwrap_or_default().as_millis() % window) % window;
    Duration::from_millis(u64::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;
    use crate::Arguments;

    #[test]
    fn a_folder_that_can_not_be_read_hides_no_other_and_takes_no_lease_away() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let record = |network: &str| path(network).join("c1:eth0.json");
        for network in ["lan", "lost"] {
            fs::create_dir(path(network)).unwrap();
            fs::write(record(network), "").unwrap();
        }
        let state_dir = root.path().to_str().unwrap();
        let arguments = Arguments::parse_from(["x", "--state-dir", state_dir]);
        let mut schedule = Schedule::default();
        schedule.note(Look::at(&arguments), false);
        assert_eq!(schedule.0.len(), 2);
        fs::rename(path("lost"), path("moved.away")).unwrap();
        fs::write(path("lost"), "").unwrap();
        fs::remove_file(record("moved.away")).unwrap();
        let look = Look::at(&arguments);
        assert!(look.problems[0].contains("/lost: "), "{:?}", look.problems);
        assert_eq!(look.problems.len(), 1);
        let networks = look.names.iter().map(|name| name.network.as_str());
        assert!(networks.eq(["lan"]), "{:?}", look.names);
        schedule.note(look, false);
        assert_eq!(schedule.0.len(), 2);
        // Now it is proven that nothing is there.
        fs::remove_file(path("lost")).unwrap();
        schedule.note(Look::at(&arguments), false);
        assert_eq!(schedule.0.len(), 1);
    }
}
