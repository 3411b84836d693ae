//! Takes over addresses that another allocator has given: claims each for the node and the
//! attachment that use it.

use cni::Error;

use crate::contents::DefinedPool;
use crate::restore::{Reconciled, is_reconciled, read_marks, refuse_marks};
use crate::try_again;
use crate::value::Holder;
use crate::{Change, Condition, Engine, Found, Group, HeldKey, Key, Read};

/// Most times that an address is read again, because it was changed meanwhile.
const MOST_TRIES: u32 = 10;

/// Claims a free address for an attachment on any node. The node needs no registration: its DEL
/// and GC release addresses with its name.
///
/// # Errors
///
/// Those of the engine; code 11 if the engine was restored, or if the pool or the address is
/// changed meanwhile.
pub fn take_over(
    engine: &mut dyn Engine,
    pool: &DefinedPool,
    held: &HeldKey,
) -> Result<Reconciled, Error> {
    let (network, attachment) = (held.network.as_str(), &held.attachment);
    let value = Holder::new(&held.node, network, attachment, None).to_value();
    let address = held.address();
    let blocks = Group::Blocks(Some(held.pool.to_string()));
    let definition = Key::Pool(held.pool.to_string());
    for _ in 0..MOST_TRIES {
        let outcome = engine.commit(&Change {
            conditions: vec![
                Condition::Missing(address.clone()),
                Condition::Value(definition.clone(), pool.value.clone()),
                Condition::Empty(blocks.clone()),
                is_reconciled(),
            ],
            write: vec![
                (address.clone(), value.clone()),
                (Key::Held(held.clone()), value.clone()),
            ],
            otherwise: vec![
                Read::Get(address.clone()),
                Read::Get(definition.clone()),
                Read::First(blocks.clone(), 1),
                read_marks(),
            ],
            ..Change::default()
        })?;
        if outcome.done {
            return Ok(Reconciled::Claimed);
        }
        let found = |i: usize| outcome.found.get(i).and_then(Found::first);
        if let Some(now) = found(0) {
            let holder = Holder::parse(&now.value);
            return Ok(match holder {
                // If the change was sent twice, the first attempt may have made it.
                _ if now.value == value => Reconciled::Claimed,
                Some(holder) if holder.node == held.node && holder.is(attachment, network) => {
                    Reconciled::Held
                }
                _ => Reconciled::Conflict(Holder::describe(&now.value)),
            });
        }
        refuse_marks(engine, outcome.found.get(3))?;
        if found(1).is_none_or(|now| now.value != pool.value) {
            return Err(try_again(format!(
                "{} was changed meanwhile: run this again",
                engine.path(&definition)
            )));
        }
        if let Some(block) = found(2) {
            let block = engine.path(&block.key);
            return Ok(Reconciled::Conflict(format!(
                "pool {} is given in blocks, such as {block}",
                held.pool
            )));
        }
    }
    Err(try_again(format!(
        "{} is changed by others all the time: run this again",
        engine.path(&address)
    )))
}
