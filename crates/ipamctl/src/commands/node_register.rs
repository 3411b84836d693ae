//! `ipamctl node-register`: gives this machine its node's name, which another machine has.
//!
//! No plugin does this: both machines with the name may have containers.

use anyhow::{Result, bail};
use cluster::{Key, Registration};

use crate::arguments::NodeRegisterArguments;
use crate::context::Context;
use crate::output::Output;
use crate::output::confirmation::is_confirmed;
use crate::shared_pools::SharedCluster;

pub(crate) fn run(arguments: &NodeRegisterArguments, context: &Context<'_>) -> Result<bool> {
    let output = context.output;
    let cluster = SharedCluster::of_this_node(&arguments.cluster, &context.node())?;
    let this_node = cluster.node();
    let name = this_node.name.as_str();
    let mut engine = cluster.engine();
    let found = engine.get(Key::Node(name.to_owned()))?;
    let machine = found.map_or("no machine".to_owned(), |registration| {
        Registration::describe(&registration.value)
    });
    if !output.json {
        output.lines([format!("{} has {machine} as node {name}", engine.name())])?;
    }
    let text = "If that is another machine and it runs, it can neither start nor end containers any more.\nType the node's name to give it to this machine: ";
    if !arguments.yes && !is_confirmed(name, text)? {
        bail!("nothing is changed");
    }
    cluster::take_name(this_node, context.environment, &mut *engine)?;
    if output.json {
        Output::json(&[serde_json::json!({"node": name, "before": machine})])?;
    } else {
        output.lines([format!("this machine is node {name} now")])?;
    }
    Ok(false)
}
