//! `ipamctl explain`: the pools and the address that an ADD would get now. Nothing is
//! reserved.

mod allocation;
mod explanation;
mod question;

use anyhow::{Result, bail};
use cni::DelegateName;
use conflist::Found;

use crate::arguments::ExplainArguments;
use crate::context::Context;
use crate::node::network::{ALLOCATOR, HOST_LOCAL};
use crate::node::{Network, Node, of_ranges};
use explanation::Explanation;
use question::{Question, is_ours};

pub(crate) fn run(arguments: &ExplainArguments, context: &Context<'_>) -> Result<bool> {
    let mut found = Found::default();
    found.add(&arguments.file);
    let node = Node::with(found, context.places, context.environment);
    if let Some(problem) = node.problems.first() {
        bail!("{problem}");
    }
    let Some(network) = node.networks.first() else {
        bail!(
            "{}: neither ipam-delegated nor host-local gives the addresses of this network",
            arguments.file.display()
        );
    };
    let explanation = explain(network, &node, arguments)?;
    let lines = || explanation.lines(&arguments.facts, context.output);
    context.output.print(&explanation, lines)?;
    Ok(explanation.is_refused())
}

fn explain(network: &Network, node: &Node, arguments: &ExplainArguments) -> Result<Explanation> {
    let question = Question::read(network, node, arguments)?;
    let mut explanation = Explanation {
        network: network.name.to_string(),
        delegates: network.delegates.iter().map(ToString::to_string).collect(),
        ..Explanation::default()
    };
    let pools = if network.has_delegate(HOST_LOCAL) {
        of_ranges(&question.config, &question.environment).map_err(anyhow::Error::msg)?
    } else {
        explanation.rules = question.rules(network);
        let (selectors, pools) = question.select(arguments.no_exec)?;
        explanation.selectors = selectors;
        pools
    };
    // A selector's failure is the answer.
    let is_failed = explanation.is_refused();
    if !is_failed {
        let answered = explanation.selectors.len();
        explanation.unknown = unknown(network, answered, arguments.no_exec);
    }
    let is_sized = explanation.unknown.is_some() || is_failed;
    for (index, pool) in pools.iter().enumerate() {
        let pool = allocation::chosen(network, index, pool, is_sized)?;
        explanation.pools.push(pool);
    }
    // An ADD gets an address from each pool, or none.
    if explanation.pools.iter().any(|pool| pool.refusal.is_some()) {
        for pool in &mut explanation.pools {
            (pool.address, pool.gateway) = (None, None);
        }
    }
    Ok(explanation)
}

/// The reason why the address is unknown, if this number of delegates has answered.
fn unknown(network: &Network, answered: usize, no_exec: bool) -> Option<String> {
    let delegates = &network.delegates;
    let gives = |name: &DelegateName| [ALLOCATOR, HOST_LOCAL].contains(&name.as_str());
    let mut not_run = delegates.iter().enumerate().skip(answered);
    // An allocator before all selectors gets no pools.
    let is_first = |at, name: &DelegateName| at == 0 && name.as_str() == ALLOCATOR;
    let (at, name) = not_run.find(|(at, name)| !gives(name) || is_first(*at, name))?;
    Some(if name.is_selector() && no_exec && !is_ours(name) {
        format!("{name} was not run (--no-exec)")
    } else if at + 1 == delegates.len() && !network.keeps_files() {
        format!("{name} chooses the address")
    } else {
        format!("{name} was not run: it is no selector")
    })
}
