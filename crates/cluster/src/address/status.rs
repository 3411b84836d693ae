//! STATUS of an allocator: does the same as an ADD, but reserves nothing.

use cni::{Attachment, Call, Error, code};
use ipam::Completion;

use super::add::{Addition, Known, Seen};
use super::choice::Choice;
use crate::pool::asked::AskedPools;
use crate::pool::has_selector;
use crate::restore::{is_reconciled, read_marks, refuse_marks};
use crate::{Change, Engine, Key, Node, Read};

/// Most looks of STATUS. Between two looks, a definition has changed.
const MOST_LOOKS: u32 = 10;

/// Name of a pool that no ADD names, for testing the node's rights.
const NO_POOL: &str = "status";

/// Fails if an ADD would be refused. The error names all pools without a free address, or the
/// other reason.
///
/// Requested addresses and sticky keys are left out, because they depend on the container.
///
/// # Errors
///
/// Code 50.
pub fn status(
    engine: &mut dyn Engine,
    node: &Node,
    plugin: &str,
    call: &Call<'_>,
) -> Result<(), Error> {
    as_an_add(engine, node, plugin, call)
        .map_err(|error| Error::new(code::UNAVAILABLE, error.msg).with_details(error.details))
}

fn as_an_add(
    engine: &mut dyn Engine,
    node: &Node,
    plugin: &str,
    call: &Call<'_>,
) -> Result<(), Error> {
    let config = &call.config;
    let ipam = config.ipam()?;
    Completion::read(config, &ipam)?;
    let nobody = Attachment {
        container_id: "status".parse().expect("a container ID"),
        ifname: "status".parse().expect("an interface's name"),
    };
    let mut addition = Addition::new(node, &nobody, call, engine)?;
    let asked = AskedPools::read(config)?;
    let mut values = asked.fetch(engine)?;
    for _ in 0..MOST_LOOKS {
        let mut pools = asked.pools(engine, &values)?;
        if pools.is_empty() && has_selector(&ipam, plugin)? {
            // The pools depend on the container, so they are unknown.
            return could_reserve_in_any(engine, &mut addition);
        }
        for pool in &mut pools {
            (pool.requested, pool.sticky) = (None, None);
        }
        let mut choices = addition.choices(&pools, engine.remembers())?;
        let seen = match addition.look(engine, &mut choices, &asked, &values)? {
            Known::Current(seen) => seen,
            Known::Changed(now) => {
                values = now;
                continue;
            }
        };
        if could_reserve(engine, &mut addition, &mut choices, &seen)? {
            return Ok(());
        }
    }
    Err(Error::new(
        code::UNAVAILABLE,
        "the definitions of the pools change all the time",
    ))
}

/// Tries the reservation of an ADD; false if this node's registration has changed.
fn could_reserve(
    engine: &mut dyn Engine,
    addition: &mut Addition<'_>,
    choices: &mut [Choice<'_>],
    seen: &Seen,
) -> Result<bool, Error> {
    loop {
        let mut full = Vec::new();
        for choice in &mut *choices {
            match choice.ask(engine) {
                Err(error) if error.code == code::TRY_AGAIN_LATER => full.push(error.msg),
                other => other?,
            }
        }
        if !full.is_empty() {
            return Err(Error::new(code::UNAVAILABLE, full.join("; ")));
        }
        let outcome = engine.commit(&Change {
            dry_run: true,
            ..addition.reservation(choices, seen)
        })?;
        let mut found = outcome.found.iter();
        if !addition.is_registered(engine, found.next())? {
            return Ok(false);
        }
        found.next();
        refuse_marks(engine, found.next())?;
        let pools = choices.len();
        for choice in &mut *choices {
            choice.note(engine, &mut found, pools)?;
        }
        // Another caller may have reserved an address that seemed free.
        if choices.iter().all(|choice| choice.asked.is_some()) {
            return Ok(true);
        }
    }
}

/// Verifies that the engine lets this node read definitions and write addresses.
fn could_reserve_in_any(engine: &mut dyn Engine, addition: &mut Addition<'_>) -> Result<(), Error> {
    let held = crate::HeldKey {
        node: addition.node.name.clone(),
        network: addition.network.clone(),
        attachment: addition.attachment.clone(),
        pool: NO_POOL.parse().expect("a pool's name"),
        ip: [0, 0, 0, 0].into(),
    };
    let value = addition.holder.to_value();
    let outcome = engine.commit(&Change {
        conditions: vec![addition.identity.is_current(), is_reconciled()],
        write: vec![(held.address(), value.clone()), (Key::Held(held), value)],
        otherwise: vec![
            addition.identity.read(),
            read_marks(),
            Read::Exists(Key::Pool(NO_POOL.to_owned())),
        ],
        dry_run: true,
        ..Change::default()
    })?;
    addition.is_registered(engine, outcome.found.first())?;
    refuse_marks(engine, outcome.found.get(1))
}
