//! Stays after an installation, and puts right what somebody removes or replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::node::Node;
use crate::status::Status;
use crate::watch::{Part, Signals, Watch, Woken};

/// Time after a change in which others are waited for, which belong to it.
const SETTLE: Duration = Duration::from_millis(100);

/// First and longest pause after something was put right: another program may put it wrong
/// again without end.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// First and longest time after which something that couldn't be put right is tried again.
/// Nobody says that a disk has room again.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// A pause that doubles while it is needed in close succession.
#[derive(Debug)]
struct Pause {
    bounds: [Duration; 2],
    next: Duration,
    last: Option<Instant>,
}

impl Pause {
    fn new(bounds: [Duration; 2]) -> Self {
        Self {
            bounds,
            next: bounds[0],
            last: None,
        }
    }

    /// The pause after something that has happened now.
    fn after(&mut self, now: Instant) -> Duration {
        let [first, longest] = self.bounds;
        let is_close = self
            .last
            .is_some_and(|last| now.duration_since(last) < 2 * longest);
        let pause = if is_close { self.next } else { first };
        self.next = (2 * pause).min(longest);
        self.last = Some(now);
        pause
    }
}

/// Keeps the installation as it is until SIGTERM or SIGINT.
///
/// # Errors
///
/// The system's, for signals and watches.
pub(crate) fn keep(node: &mut Node, signals: &Signals) -> Result<()> {
    let mut status = Status {
        version: node.release.version.clone(),
        problems: BTreeMap::new(),
    };
    let mut repairs = Pause::new(PAUSES);
    let mut retries = Pause::new(RETRIES);
    let mut told = None;
    'watching: loop {
        // First the watches, then a look: nothing is missed in between.
        let Some(watch) = start(node, &mut status) else {
            // Without watches, it looks from time to time.
            tell(node, &status, &mut told);
            if signals.came_within(Some(retries.after(Instant::now())))? {
                return Ok(());
            }
            continue;
        };
        let mut dirty = node.parts();
        loop {
            let mut is_repaired = false;
            for part in std::mem::take(&mut dirty) {
                is_repaired |= look(node, part, &mut status);
            }
            note(&mut status, "network", node.check_network());
            tell(node, &status, &mut told);
            if is_repaired && signals.came_within(Some(repairs.after(Instant::now())))? {
                return Ok(());
            }
            // Without a problem, it waits for as long as it takes.
            let retry = (!status.is_ready()).then(|| retries.after(Instant::now()));
            match watch.wait(signals, retry)? {
                Woken::Stop => return Ok(()),
                Woken::Lost => {
                    if signals.came_within(Some(SETTLE))? {
                        return Ok(());
                    }
                    continue 'watching;
                }
                Woken::Changes(parts) if parts.is_empty() => dirty = node.parts(),
                Woken::Changes(parts) => {
                    dirty = parts;
                    if signals.came_within(Some(SETTLE))? {
                        return Ok(());
                    }
                    match watch.read()? {
                        Woken::Changes(more) => dirty.extend(more),
                        _ => continue 'watching,
                    }
                    // A catalogue and its conflists may need each other.
                    if dirty.contains(&Part::Pools) || dirty.contains(&Part::Conflists) {
                        let both = BTreeSet::from([Part::Pools, Part::Conflists]);
                        dirty.extend(node.parts().intersection(&both));
                        // The folder of the catalogue is a new one after each change.
                        look_all(node, &dirty, &mut status);
                        continue 'watching;
                    }
                }
            }
        }
    }
}

/// Says the state, if it is another one than before.
fn tell(node: &Node, status: &Status, told: &mut Option<Status>) {
    if told.as_ref() == Some(status) {
        return;
    }
    eprintln!("{}", status.text());
    if let Err(error) = status.write(&node.arguments.status_file) {
        eprintln!("the probe can't be told: {error:#}");
    }
    *told = Some(status.clone());
}

/// The name of a problem with the watches.
const WATCHES: &str = "watches";

/// Number of attempts at watches of folders that are being removed.
const MOST_ATTEMPTS: usize = 3;

fn start(node: &mut Node, status: &mut Status) -> Option<Watch> {
    for _ in 0..MOST_ATTEMPTS {
        // Missing folders are made first.
        look_all(node, &node.parts(), status);
        match node.watched().and_then(|it| Ok(Watch::start(it)?)) {
            Ok(watch) => {
                status.problems.remove(WATCHES);
                return Some(watch);
            }
            Err(error) => {
                let problem = format!("{error:#}");
                status.problems.insert(WATCHES.to_owned(), problem);
            }
        }
    }
    None
}

fn look_all(node: &mut Node, parts: &BTreeSet<Part>, status: &mut Status) {
    for part in parts {
        look(node, *part, status);
    }
}

/// Looks at a part; true if it was put right.
fn look(node: &mut Node, part: Part, status: &mut Status) -> bool {
    let name = match part {
        Part::Plugins => "plugins",
        Part::Tool => "ipamctl",
        Part::Pools => "pools",
        Part::Conflists => "conflists",
    };
    note(status, name, node.put_right(part)).unwrap_or_default()
}

/// Notes or removes the problem of this name.
fn note<T>(status: &mut Status, name: &str, done: Result<T>) -> Option<T> {
    match done {
        Ok(value) => {
            status.problems.remove(name);
            Some(value)
        }
        Err(error) => {
            let problem = format!("{error:#}");
            status.problems.insert(name.to_owned(), problem);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_while_it_is_needed_and_starts_again_later() {
        let mut pause = Pause::new([Duration::from_secs(1), Duration::from_secs(4)]);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let pauses: Vec<u64> = [0, 1, 3, 6, 60]
            .map(|it| pause.after(at(it)).as_secs())
            .into();
        assert_eq!(pauses, [1, 2, 4, 4, 1]);
    }
}
