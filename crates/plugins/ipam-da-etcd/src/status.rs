//! STATUS: does what an ADD does, up to the point of reserving.

use cluster::Cluster;
use cluster_client::{Asked, Identity, is_reconciled, read_marks, refuse_marks};
use cni::{Attachment, Call, Error, code};
use etcd::{Client, Compare, Op, Range, Txn};
use ipam::Completion;

use crate::add::{Add, Known};

/// Looks after which STATUS gives up: before each, a definition has changed.
const MOST_LOOKS: u32 = 10;

/// Fails with code 50 if an ADD would be refused: the pools that have no address left, all by
/// name, or whatever else is the matter.
///
/// Requested addresses and sticky keys are a container's, so they are left out.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    as_an_add(call).map_err(|error| match error.code {
        code::UNAVAILABLE => error,
        _ => Error::new(code::UNAVAILABLE, error.msg).with_details(error.details),
    })
}

fn as_an_add(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let ipam = config.ipam()?;
    let cluster = Cluster::read(&ipam)?;
    Completion::read(config, &ipam)?;
    let mut client = cluster_client::client(&cluster, call)?;
    let identity = Identity::of(&cluster, call, &mut client)?;
    let nobody = Attachment {
        container_id: "status".parse().expect("a container ID"),
        ifname: "status".parse().expect("an interface's name"),
    };
    let add = Add::new(&cluster, call, identity, &nobody)?;
    let asked = Asked::read(config)?;
    let keys = &cluster.keys;
    let mut values = asked.fetch(&mut client, keys)?;
    for _ in 0..MOST_LOOKS {
        let mut pools = asked.pools(keys, &values)?;
        if pools.is_empty() && cluster_client::has_selector(&ipam, "ipam-da-etcd")? {
            // The pools depend on the container.
            return could_reserve_in_any(&mut client, &add);
        }
        for pool in &mut pools {
            (pool.requested, pool.sticky) = (None, None);
        }
        let mut choices = add.choices(&pools)?;
        let seen = match add.look(&mut client, &mut choices, (&asked, &values))? {
            Known::Same(seen) => seen,
            Known::Redefined(now) => {
                values = now;
                continue;
            }
        };
        let mut full = Vec::new();
        for choice in &mut choices {
            match choice.ask(&mut client, keys) {
                Err(error) if error.code == code::TRY_AGAIN_LATER => full.push(error.msg),
                other => other?,
            }
        }
        if !full.is_empty() {
            return Err(Error::new(code::UNAVAILABLE, full.join("; ")));
        }
        let mut txn = add.transaction(&choices, &seen, &add.holder.to_value());
        txn.when.push(Compare::never(keys.token(&cluster.node)));
        let answer = client.txn(&txn)?;
        let mut ranges = answer.ranges();
        if !add.is_registered(&mut client, ranges.next())? {
            continue;
        }
        ranges.next();
        refuse_marks(keys, ranges.next())?;
        for choice in &mut choices {
            choice.note(&mut ranges, pools.len())?;
        }
        return Ok(());
    }
    Err(Error::new(
        code::UNAVAILABLE,
        "the definitions of the pools change all the time",
    ))
}

/// Verifies that etcd lets this node read definitions, and write below its name.
fn could_reserve_in_any(client: &mut Client<'_>, add: &Add<'_>) -> Result<(), Error> {
    let Cluster { keys, node, .. } = add.cluster;
    let (condition, read) = {
        let identity = add.identity.borrow();
        (identity.is_current(), identity.read())
    };
    let answer = client.txn(&Txn {
        when: vec![
            condition,
            is_reconciled(keys),
            Compare::never(keys.token(node)),
        ],
        then: [keys.addresses("status"), keys.node(node)]
            .map(|key| Op::put(key, ""))
            .to_vec(),
        otherwise: vec![
            Op::get(read),
            Op::get(read_marks(keys)),
            Op::get(Range::key(keys.pool("status")).count_only()),
        ],
    })?;
    add.is_registered(client, answer.ranges().next())?;
    refuse_marks(keys, answer.ranges().nth(1))
}
