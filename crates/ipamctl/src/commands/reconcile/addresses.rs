//! Addresses that live on this node: claims again those that etcd has lost.

use anyhow::Result;
use cluster::Holder;
use etcd::{Compare, Op, Range, Txn};

use super::living::Living;
use super::{Engine, Outcome, Row, changes_all_the_time};

/// Times that an address is looked at again, because it was changed meanwhile.
const MOST_TRIES: u32 = 10;

/// Claims all; what another has is a conflict.
pub(super) fn claim_all(engine: &mut Engine<'_>, living: &[Living]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for it in living {
        let Some(outcome) = claim(engine, it)? else {
            continue;
        };
        let attachment = &it.attachment;
        let holder = format!(
            "{} {} of network {}",
            attachment.container_id, attachment.ifname, it.network
        );
        rows.push(Row::new(it.ip.to_string(), &it.pool, Some(holder), outcome));
    }
    Ok(rows)
}

/// Claims an address; `None` if its attachment was deleted meanwhile.
fn claim(engine: &mut Engine<'_>, living: &Living) -> Result<Option<Outcome>> {
    let keys = engine.cluster.cluster.keys.clone();
    let node = engine.cluster.cluster.node.clone();
    let Living {
        network,
        attachment,
        pool,
        ip,
        record,
    } = living;
    let value = Holder::new(&node, network.as_str(), attachment, None).to_value();
    let address = keys.address(pool, *ip);
    let held = keys.held(&node, network.as_str(), attachment, pool, *ip);
    let blocks = keys.blocks(pool);
    for _ in 0..MOST_TRIES {
        let mut when = engine.conditions();
        when.push(Compare::is_missing(address.as_str()));
        when.push(Compare::none_starts_with(blocks.as_str()));
        let answer = engine.client.txn(&Txn {
            when,
            then: vec![
                Op::put(address.as_str(), value.as_slice()),
                Op::put(held.as_str(), value.as_slice()),
            ],
            otherwise: vec![
                Op::get(Range::key(address.as_str())),
                Op::get(Range::key(held.as_str())),
                Op::get(Range::prefix(blocks.as_str()).keys_only().limit(1)),
            ],
        })?;
        let mut found = answer.ranges().map(|it| it.kvs.first());
        let (now, entry) = (found.next().flatten(), found.next().flatten());
        if answer.succeeded || now.is_some_and(|it| it.value == value) {
            if record.try_exists().unwrap_or(true) {
                return Ok(Some(Outcome::Claimed));
            }
            // Its DEL had ended when this was claimed.
            engine.client.txn(&Txn {
                when: vec![
                    Compare::value(address.as_str(), value.as_slice()),
                    Compare::value(held.as_str(), value.as_slice()),
                ],
                then: vec![Op::delete(address), Op::delete(held)],
                otherwise: Vec::new(),
            })?;
            return Ok(None);
        }
        if let Some(now) = now {
            let is_ours = Holder::parse(&now.value)
                .is_some_and(|it| it.node == node && it.is(attachment, network.as_str()));
            if !is_ours {
                return Ok(Some(Outcome::Conflict(Holder::describe(&now.value))));
            }
            if entry.is_some_and(|it| it.value == now.value) {
                return Ok(Some(Outcome::Held));
            }
            // DEL and GC find it by its entry.
            let mut when = engine.conditions();
            when.push(Compare::value(address.as_str(), now.value.as_slice()));
            let completed = engine.client.txn(&Txn {
                when,
                then: vec![Op::put(held.as_str(), now.value.as_slice())],
                otherwise: Vec::new(),
            })?;
            if completed.succeeded {
                return Ok(Some(Outcome::Claimed));
            }
        } else if let Some(block) = found.next().flatten() {
            let block = String::from_utf8_lossy(&block.key);
            let other = format!("pool {pool} is given in blocks, such as {block}");
            return Ok(Some(Outcome::Conflict(other)));
        }
        engine.verify_name()?;
    }
    Err(changes_all_the_time(&address))
}
