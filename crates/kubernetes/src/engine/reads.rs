//! Answers the reads of the rules.

use cluster::{EngineError, Found, Group, Key, Read, Stored};

use super::Engine;
use crate::Resource;

/// One of this number of ADDs with a sticky key counts the keys.
const COUNTED: u32 = 64;

impl Engine<'_> {
    /// The answer to one read.
    pub(super) fn answer(&mut self, read: &Read) -> Result<Found, EngineError> {
        let found = |objects: Vec<Stored>| Found {
            number: objects.len() as u64,
            objects,
        };
        Ok(match read {
            Read::Get(key) => found(
                self.object(key)?
                    .map(|(_, stored)| stored)
                    .into_iter()
                    .collect(),
            ),
            Read::Exists(Key::Address(pool, ip)) => Found {
                number: u64::from(!self.seems_free(pool, *ip)?),
                ..Found::default()
            },
            Read::Exists(key @ Key::Block(pool, _)) => {
                if !self.blocks.contains_key(pool) {
                    let all = self.of_pool(Resource::Block, Some(pool), false)?;
                    let keys = all.into_iter().map(|stored| stored.key).collect();
                    self.blocks.insert(pool.clone(), keys);
                }
                Found {
                    number: u64::from(self.blocks[pool].contains(key)),
                    ..Found::default()
                }
            }
            Read::Exists(key) => Found {
                number: u64::from(self.object(key)?.is_some()),
                ..Found::default()
            },
            Read::First(Group::Marks, _) if !self.is_restored()? => Found::default(),
            // This is a hint: it prevents a second ADD for an attachment whose address was created
            // elsewhere.
            Read::First(Group::Held(holding), _) => match self.indexed(holding, &[])? {
                Some(objects) => found(objects),
                None => found(self.holding(holding)?),
            },
            Read::First(group, most) => {
                let mut found = found(self.group(group, false)?);
                found.objects.truncate(*most as usize);
                found
            }
            Read::Oldest(group, most) => {
                let mut found = found(self.group(group, true)?);
                found.objects.sort_by_key(|stored| stored.revision);
                found.objects.truncate(*most as usize);
                found
            }
            // Listing all keys for each ADD with a sticky key would be too expensive, so only a
            // few ADDs check the number of keys.
            Read::Count(Group::StickyKeys(_)) if fastrand::u32(..COUNTED) > 0 => Found::default(),
            Read::Count(group) => Found {
                number: self.group(group, false)?.len() as u64,
                ..Found::default()
            },
        })
    }

    /// The objects of a group.
    pub(super) fn group(
        &mut self,
        group: &Group,
        with_values: bool,
    ) -> Result<Vec<Stored>, EngineError> {
        match group {
            Group::Pools => self.of_pool(Resource::Pool, None, true),
            Group::Addresses(pool) => self.of_pool(Resource::Address, pool.as_deref(), with_values),
            Group::Held(holding) => self.holding(holding),
            Group::Blocks(pool) => self.of_pool(Resource::Block, pool.as_deref(), with_values),
            Group::Marks => {
                let marks = self.marks()?;
                if marks.is_empty() {
                    // The process that deleted the last mark may have failed to delete this
                    // restore.
                    self.sweep()?;
                }
                Ok(marks)
            }
            // The object's name has only a hash of the key.
            Group::StickyKeys(pool) => self.of_pool(Resource::StickyKey, Some(pool), true),
            Group::Nodes => self.of_pool(Resource::IpamNode, None, true),
        }
    }
}
