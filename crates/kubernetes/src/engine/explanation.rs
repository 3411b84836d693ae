//! Answers the reads that explain why a change was not made.

use cluster::{Change, Condition, EngineError, Found, Key, Read, Stored};

use super::Engine;

/// An address that a change could not create.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) key: Key,
    pub(super) found: Found,
}

impl Taken {
    /// An address that exists, or existed until just now.
    pub(super) fn exists(key: &Key, stored: Option<Stored>) -> Self {
        Self {
            key: key.clone(),
            found: Found {
                number: u64::from(stored.is_some()),
                objects: stored.into_iter().collect(),
            },
        }
    }
}

impl Engine<'_> {
    /// Answers the reads of a change that was not made.
    ///
    /// If an address was taken, that is the reason. Then the other conditions aren't read again,
    /// but assumed to hold: the next change verifies them.
    pub(super) fn explain(&mut self, change: &Change) -> Result<Vec<Found>, EngineError> {
        let Some(taken) = self.taken.take() else {
            return cluster::Engine::read(self, &change.otherwise);
        };
        let reads = change.otherwise.iter();
        reads
            .map(|read| match (read, &taken) {
                (Read::Get(key), taken) if *key == taken.key => Ok(taken.found.clone()),
                _ => assumed(change, read).map_or_else(|| self.answer(read), Ok),
            })
            .collect()
    }
}

/// The answer to a read if the change's conditions hold; `None` if they don't determine it.
fn assumed(change: &Change, read: &Read) -> Option<Found> {
    change
        .conditions
        .iter()
        .find_map(|condition| match (read, condition) {
            (Read::First(group, _), Condition::Empty(empty)) if group == empty => {
                Some(Found::default())
            }
            (Read::Get(key), Condition::Value(of, value)) if key == of => Some(one(key, value)),
            _ => None,
        })
}

fn one(key: &Key, value: &[u8]) -> Found {
    let stored = Stored {
        key: key.clone(),
        value: value.to_vec(),
        revision: 0,
    };
    Found {
        objects: vec![stored],
        number: 1,
    }
}

#[cfg(test)]
mod tests {
    use cluster::Group;

    use super::*;

    #[test]
    fn only_what_conditions_say_is_assumed() {
        let node = Key::Node("n1".to_owned());
        let blocks = |pool: &str| Group::Blocks(Some(pool.to_owned()));
        let change = Change {
            conditions: vec![
                Condition::Value(node.clone(), b"x".to_vec()),
                Condition::Empty(blocks("blue")),
            ],
            ..Change::default()
        };
        let registration = assumed(&change, &Read::Get(node)).unwrap();
        assert_eq!(registration.first().unwrap().value, b"x");
        let empty = assumed(&change, &Read::First(blocks("blue"), 1));
        assert_eq!(empty, Some(Found::default()));
        assert_eq!(assumed(&change, &Read::First(blocks("red"), 1)), None);
        assert_eq!(assumed(&change, &Read::First(Group::Marks, 5)), None);
        let pool = Key::Pool("blue".to_owned());
        assert_eq!(assumed(&change, &Read::Get(pool)), None);
    }
}
