//! `ipamctl explain`: the pools and the address that an ADD would get now. Nothing is
//! reserved.

mod allocation;
mod earlier_add;
mod question;

use std::net::IpAddr;

use anyhow::{Result, bail};
use cni::{DelegateName, Environment};
use conflist::Found;
use ipam_ds_rules::tools::Tried;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::arguments::{ExplainArguments, Places};
use crate::commands::pools::large;
use crate::exit_status::Status;
use crate::node::Node;
use crate::node::network::{ALLOCATOR, HOST_LOCAL, Network};
use crate::node::pools::of_ranges;
use crate::output::{Output, Style};
use earlier_add::Earlier;
use question::Question;

/// The fact that names the container.
const CONTAINER_ID: &str = "containerID";

/// The explanation. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
struct Explanation {
    network: String,
    delegates: Vec<String>,
    /// The rules that were tried, up to the one that holds.
    rules: Vec<Rule>,
    /// What each selector has answered.
    selectors: Vec<Selector>,
    pools: Vec<ChosenPool>,
    /// The reason why an ADD would be refused, whatever the pools have.
    refusal: Option<String>,
    /// The reason why the pools or the addresses are not known.
    unknown: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    rule: String,
    holds: bool,
    /// The reason why it doesn't: the fact, what it is, what it must be.
    fact: Option<String>,
    is: Option<String>,
    must_be: Option<String>,
}

#[derive(Debug, Serialize)]
struct Selector {
    name: String,
    answer: Option<Box<RawValue>>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct ChosenPool {
    pool: Option<String>,
    ranges: String,
    size: String,
    reserved: String,
    free: String,
    sticky: Option<String>,
    /// The address that an ADD would get now.
    address: Option<IpAddr>,
    gateway: Option<IpAddr>,
    /// The reason why it would get none.
    refusal: Option<String>,
}

impl Rule {
    fn of(tried: Tried) -> Self {
        let (fact, is, must_be) = match tried.unmet {
            None => (None, None, None),
            Some(it) => (Some(it.fact), it.is, Some(it.must_be)),
        };
        Self {
            rule: tried.rule,
            holds: fact.is_none(),
            fact,
            is,
            must_be,
        }
    }

    fn text(&self) -> String {
        let Self { rule, is, .. } = self;
        match (&self.fact, &self.must_be) {
            (Some(fact), Some(must_be)) => {
                let is = is
                    .as_ref()
                    .map_or("missing".to_owned(), |is| format!("{is:?}"));
                format!("{rule}: doesn't hold: {fact} is {is}, and must be {must_be}")
            }
            _ => format!("{rule}: holds"),
        }
    }
}

pub(crate) fn run(
    arguments: &ExplainArguments,
    places: &Places,
    environment: &Environment,
    output: Output,
) -> Result<Status> {
    let mut found = Found::default();
    found.add(&arguments.file);
    let node = Node::with(found, places, environment);
    if let Some(problem) = node.problems.first() {
        bail!("{}: {}", problem.path.display(), problem.reason);
    }
    let Some(network) = node.networks.first() else {
        bail!(
            "{}: neither ipam-delegated nor host-local gives the addresses of this network",
            arguments.file.display()
        );
    };
    let explanation = explain(network, &node, arguments)?;
    if output.json {
        Output::json(&explanation)?;
    } else {
        output.lines(text(&explanation, arguments, output))?;
    }
    let is_refused = explanation.refusal.is_some()
        || explanation.selectors.iter().any(|it| it.error.is_some())
        || explanation.pools.iter().any(|it| it.refusal.is_some());
    Ok(Status::of(is_refused))
}

fn explain(network: &Network, node: &Node, arguments: &ExplainArguments) -> Result<Explanation> {
    let mut explanation = Explanation {
        network: network.name.to_string(),
        delegates: network.delegates.iter().map(ToString::to_string).collect(),
        rules: Vec::new(),
        selectors: Vec::new(),
        pools: Vec::new(),
        refusal: None,
        unknown: None,
    };
    let question = Question::read(network, node, arguments)?;
    let pools = if network.delegates[..]
        .iter()
        .any(|it| it.as_str() == HOST_LOCAL)
    {
        of_ranges(&question.config, &question.environment).map_err(anyhow::Error::msg)?
    } else {
        explanation.rules = question.rules(network);
        question.select(network, arguments.no_exec, &mut explanation)?
    };
    let is_failed = explanation.selectors.iter().any(|it| it.error.is_some());
    if explanation.unknown.is_none() && !is_failed {
        explanation.unknown = unknown(network, explanation.selectors.len());
    }
    if arguments.facts.iter().any(|(key, _)| key == CONTAINER_ID) {
        match earlier_add::of(network, &question, &pools)? {
            None => {}
            Some(Earlier::Refused(reason)) => explanation.refusal = Some(reason),
            Some(Earlier::Unknown(reason)) => {
                explanation.unknown.get_or_insert(reason);
            }
        }
    }
    let is_sized = explanation.refusal.is_some() || explanation.unknown.is_some() || is_failed;
    for (index, pool) in pools.iter().enumerate() {
        let pool = allocation::chosen(network, index, pool, is_sized)?;
        explanation.pools.push(pool);
    }
    // An ADD gets an address from each pool, or none.
    if explanation.pools.iter().any(|it| it.refusal.is_some()) {
        for pool in &mut explanation.pools {
            (pool.address, pool.gateway) = (None, None);
        }
    }
    Ok(explanation)
}

/// The reason why the address is not known, after this number of delegates has answered.
fn unknown(network: &Network, answered: usize) -> Option<String> {
    let delegates = &network.delegates;
    let gives = |name: &DelegateName| [ALLOCATOR, HOST_LOCAL].contains(&name.as_str());
    let last = delegates.len().saturating_sub(1);
    let mut not_run = delegates.iter().enumerate().skip(answered);
    let (at, name) = not_run.find(|(_, name)| !gives(name))?;
    Some(if at == last && !network.keeps_files() {
        format!("{name} chooses the address")
    } else {
        format!("{name} was not run: it is no selector")
    })
}

fn text(it: &Explanation, arguments: &ExplainArguments, output: Output) -> Vec<String> {
    let mut lines = vec![
        output.styled(Style::Bold, &format!("network {}", it.network)),
        format!("  chain      {}", it.delegates.join(" → ")),
    ];
    let facts: Vec<String> = arguments
        .facts
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    lines.push(format!(
        "  facts      {}",
        if facts.is_empty() {
            "none".to_owned()
        } else {
            facts.join(", ")
        }
    ));
    lines.extend(it.rules.iter().map(|rule| format!("  {}", rule.text())));
    for selector in &it.selectors {
        if let Some(error) = &selector.error {
            lines.push(format!("  {} refuses: {error}", selector.name));
        }
    }
    for pool in &it.pools {
        let name = pool
            .pool
            .as_ref()
            .map_or_else(String::new, |it| format!("{it}, "));
        let [reserved, size, free] = [&pool.reserved, &pool.size, &pool.free]
            .map(|text| text.parse().map_or_else(|_| text.clone(), large));
        lines.push(format!(
            "  pool       {name}{}: {reserved} of {size} reserved, {free} free",
            pool.ranges
        ));
        if let Some(key) = &pool.sticky {
            lines.push(format!(
                "    sticky   {key}: the address that this key had last, if it is free"
            ));
        }
        match (&pool.address, &pool.refusal) {
            (Some(ip), _) => {
                let gateway = pool
                    .gateway
                    .map_or_else(String::new, |it| format!(", gateway {it}"));
                lines.push(format!("    an ADD would get {ip} now{gateway}"));
            }
            (None, Some(refusal)) => lines.push(format!("    an ADD would be refused: {refusal}")),
            (None, None) => {}
        }
    }
    if let Some(refusal) = &it.refusal {
        lines.push(format!("  an ADD would be refused: {refusal}"));
    }
    if let Some(unknown) = &it.unknown {
        lines.push(format!("  not known: {unknown}"));
    }
    lines
}
