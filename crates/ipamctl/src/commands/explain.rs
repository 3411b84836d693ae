//! `ipamctl explain`: the pools and the address that an ADD would get now. Nothing is
//! reserved.

mod question;

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Result, bail};
use cni::{DelegateName, Environment};
use ipam::{Interval, Pool};
use ipam_ds_rules::tools::Tried;
use reservations::StickyPool;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::arguments::{ExplainArguments, Places};
use crate::commands::Status;
use crate::commands::pools::large;
use crate::conf_dir::Found;
use crate::network::{HOST_LOCAL, Network};
use crate::node::Node;
use crate::output::{Output, Style};
use crate::pools::of_ranges;
use crate::usage::{Usage, slice};
use question::Question;

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
    let is_refused = explanation.selectors.iter().any(|it| it.error.is_some())
        || explanation.pools.iter().any(|it| it.refusal.is_some());
    Ok(if is_refused {
        Status::Found
    } else {
        Status::Fine
    })
}

fn explain(network: &Network, node: &Node, arguments: &ExplainArguments) -> Result<Explanation> {
    let mut explanation = Explanation {
        network: network.name.to_string(),
        delegates: network.delegates.iter().map(ToString::to_string).collect(),
        rules: Vec::new(),
        selectors: Vec::new(),
        pools: Vec::new(),
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
    let allocator = network.delegates.last().map(DelegateName::as_str);
    if explanation.unknown.is_none() && !network.keeps_files() {
        let name = allocator.unwrap_or("the allocator");
        explanation.unknown = Some(format!("{name} chooses the address"));
    }
    for (index, pool) in pools.iter().enumerate() {
        explanation.pools.push(chosen(network, index, pool)?);
    }
    Ok(explanation)
}

/// The pool, and the address that it would give, by the allocator's rules.
fn chosen(network: &Network, index: usize, pool: &Pool) -> Result<ChosenPool> {
    let directory = network
        .folders
        .data_dir
        .join(pool.directory(&network.name).as_str());
    let not_there = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let taken = match reservations::tools::taken(&directory) {
        Err(error) if not_there(&error) => Vec::new(),
        other => other?,
    };
    let usage = Usage::of(&pool.ranges, &taken);
    let mut it = ChosenPool {
        pool: pool.name.as_ref().map(ToString::to_string),
        ranges: pool.ranges.to_string(),
        size: usage.size.to_string(),
        reserved: usage.reserved.to_string(),
        free: usage.free().to_string(),
        sticky: pool.sticky.clone(),
        address: None,
        gateway: None,
        refusal: None,
    };
    if !network.keeps_files() {
        return Ok(it);
    }
    let rotation = pool.rotation_index(&network.name, index);
    let last = match reservations::tools::last_reserved(&directory, rotation) {
        Err(error) if not_there(&error) => None,
        other => other?,
    };
    let address = match pool.requested {
        Some(ip) if taken.binary_search(&ip).is_ok() => {
            it.refusal = Some(format!("{ip}, which is requested, is reserved"));
            None
        }
        Some(ip) => Some(ip),
        None => {
            let candidates = pool.ranges.rotation(last);
            let mut candidates = candidates.iter();
            let free = remembered(pool, &directory, &taken)?
                .or_else(|| candidates.find_map(|it| first_free(it.addresses, &taken)));
            if free.is_none() {
                it.refusal = Some("no address is free".to_owned());
            }
            free
        }
    };
    it.gateway = address.and_then(|ip| Some(pool.ranges.range_of(ip)?.gateway()));
    it.address = address;
    Ok(it)
}

/// The address that the pool's sticky key had last, if it is free.
fn remembered(pool: &Pool, directory: &Path, taken: &[IpAddr]) -> Result<Option<IpAddr>> {
    let Some(key) = &pool.sticky else {
        return Ok(None);
    };
    let of_pool = StickyPool {
        contains: &|ip| pool.ranges.gives(ip),
        capacity: pool.ranges.capacity(),
    };
    let ip = reservations::tools::address_of_key(directory, key, of_pool)?;
    Ok(ip.filter(|ip| taken.binary_search(ip).is_err()))
}

/// The lowest address of the interval that isn't taken.
fn first_free(interval: Interval, taken: &[IpAddr]) -> Option<IpAddr> {
    let mut candidates = interval.iter();
    for ip in slice(taken, interval.first(), interval.last()) {
        let candidate = candidates.next()?;
        if candidate != *ip {
            return Some(candidate);
        }
    }
    candidates.next()
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
    if let Some(unknown) = &it.unknown {
        lines.push(format!("  not known: {unknown}"));
    }
    lines
}
