//! The change that reserves the addresses of an ADD.

use super::add::{Addition, Seen};
use super::choice::Choice;
use super::free;
use crate::restore::{is_reconciled, read_marks};
use crate::{Change, Condition, Group, HeldKey, Key, Read};

impl Addition<'_> {
    /// The change. Its conditions: this machine has the node's name, the definitions are those
    /// that were read, the addresses are free, and the attachment has no address of these pools.
    pub(super) fn reservation(&self, choices: &[Choice<'_>], seen: &Seen) -> Change {
        let value = self.holder.to_value();
        let mut change = Change {
            conditions: vec![self.identity.is_current(), is_reconciled()],
            // The answers are read in this order.
            otherwise: vec![self.identity.read(), self.held_read(), read_marks()],
            ..Change::default()
        };
        change.conditions.extend(seen.are_unchanged.iter().cloned());
        for (choice, held) in choices.iter().zip(&seen.held) {
            let (Some(ip), name) = (choice.asked, choice.name) else {
                continue;
            };
            let address = Key::Address(name.to_owned(), ip);
            // Nodes may still have blocks from a former definition with `block`.
            let blocks = Group::Blocks(Some(name.to_owned()));
            change.conditions.push(Condition::Missing(address.clone()));
            change.conditions.push(Condition::Empty(blocks.clone()));
            if held.is_none() {
                let of_pool = self.holding().from_pool(name);
                change
                    .conditions
                    .push(Condition::Empty(Group::Held(of_pool)));
            }
            let held = HeldKey {
                node: self.node.name.clone(),
                network: self.network.clone(),
                attachment: self.attachment.clone(),
                pool: choice.pool.directory(self.network).clone(),
                ip,
            };
            change.write.push((address.clone(), value.clone()));
            change.write.push((Key::Held(held), value.clone()));
            change.otherwise.push(Read::Get(address));
            let checked = choice.checked_again(choices.len());
            let checked = checked.map(|ip| free::is_reserved(name, ip));
            change.otherwise.extend(checked);
            change.otherwise.push(Read::First(blocks, 1));
        }
        change
    }
}
