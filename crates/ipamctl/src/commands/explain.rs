//! `ipamctl explain`: the pools and the address that an ADD would get now. Nothing is
//! reserved.

use std::net::IpAddr;

use anyhow::{Result, bail};
use chain::{Chain, Outcome, Plugins};
use cni::{Attachment, DelegateName, Environment, LinkedPlugin, NetworkConfig, Object};
use cni_plugin::Linked;
use ipam::{Interval, Pool};
use ipam_ds_ranges::IpamDsRanges;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::arguments::{ExplainArguments, Places};
use crate::commands::Status;
use crate::commands::pools::large;
use crate::conf_dir::Found;
use crate::network::{HOST_LOCAL, Network};
use crate::node::Node;
use crate::output::{Output, Style};
use crate::pools::{of_answer, of_ranges};
use crate::usage::{Usage, slice};

/// Start of the names of selectors, which find and hold nothing.
const SELECTOR: &str = "ipam-ds-";

/// The container of the question, unless a fact names another.
const CONTAINER: &str = "ipamctl-explain";

/// Facts that are no keys of `CNI_ARGS`.
const LABEL: &str = "label:";
const ANNOTATION: &str = "annotation:";
const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// The explanation. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
struct Explanation {
    network: String,
    delegates: Vec<String>,
    /// What each selector has answered.
    selectors: Vec<Selector>,
    pools: Vec<ChosenPool>,
    /// The reason why the pools or the addresses are not known.
    unknown: Option<String>,
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
        Output::lines(text(&explanation, arguments, output))?;
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
        // The explanation of the rules belongs here: which were tried, and why each but
        // the last doesn't hold.
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

/// The call that an ADD would be.
struct Question {
    config: NetworkConfig,
    environment: Environment,
    attachment: Attachment,
}

impl Question {
    fn read(network: &Network, node: &Node, arguments: &ExplainArguments) -> Result<Self> {
        let (mut container, mut ifname) = (CONTAINER.to_owned(), "eth0".to_owned());
        let mut args = vec!["IgnoreUnknown=1".to_owned()];
        let (mut labels, mut annotations) = (Object::new(), Object::new());
        for (key, value) in &arguments.facts {
            if let Some(key) = key.strip_prefix(LABEL) {
                labels.set(key, value);
            } else if let Some(key) = key.strip_prefix(ANNOTATION) {
                annotations.set(key, value);
            } else {
                match key.as_str() {
                    "containerID" => container.clone_from(value),
                    "ifname" => ifname.clone_from(value),
                    _ => args.push(format!("{key}={value}")),
                }
            }
        }
        let mut config: Object = cni::read("configuration", &network.config.to_raw())?;
        if labels.keys().next().is_some() {
            nested(&mut config, &["args", "cni", "labels"], &labels);
        }
        if annotations.keys().next().is_some() {
            nested(&mut config, &["runtimeConfig", ANNOTATIONS], &annotations);
        }
        let bad = |key: &str, error: cni::InvalidName| anyhow::anyhow!("{key}: {error}");
        let attachment = Attachment {
            container_id: container.parse().map_err(|e| bad("containerID", e))?,
            ifname: ifname.parse().map_err(|e| bad("ifname", e))?,
        };
        let environment = node
            .environment
            .clone()
            .with("CNI_CONTAINERID", container)
            .with("CNI_IFNAME", ifname)
            .with("CNI_NETNS", "/run/netns/ipamctl-explain")
            .with("CNI_ARGS", args.join(";"));
        Ok(Self {
            config: NetworkConfig::parse(serde_json::to_vec(&config)?)?,
            environment,
            attachment,
        })
    }

    /// Runs the selectors; returns the pools of the last one.
    fn select(
        &self,
        network: &Network,
        no_exec: bool,
        explanation: &mut Explanation,
    ) -> Result<Vec<Pool>> {
        let ranges = Linked(&IpamDsRanges);
        let linked: [&dyn LinkedPlugin; 1] = [&ranges];
        let plugins = Plugins::in_cni_path(&self.environment)?.and_linked(&linked);
        let chain = Chain::new(&self.config, &self.environment, plugins)?;
        let is_ours = |name: &DelegateName| linked.iter().any(|it| it.name() == name.as_str());
        let is_selector = |name: &DelegateName| name.as_str().starts_with(SELECTOR);
        let runs = |name: &DelegateName| is_selector(name) && (!no_exec || is_ours(name));
        let mut pools = Vec::new();
        for (name, outcome) in chain.dry_run(&self.attachment, runs) {
            let (answer, error) = match outcome {
                Outcome::Result(output) => (Some(output.json().to_owned()), None),
                Outcome::Nothing => (None, Some("it printed nothing".to_owned())),
                Outcome::Failed(failure) => (None, Some(failure.to_error().to_string())),
            };
            if let Some(answer) = &answer {
                pools = of_answer(answer).map_err(anyhow::Error::msg)?;
            }
            explanation.selectors.push(Selector {
                name: name.to_string(),
                answer,
                error,
            });
        }
        let forbidden = network
            .delegates
            .iter()
            .find(|it| is_selector(it) && no_exec && !is_ours(it));
        explanation.unknown = match (forbidden, explanation.selectors.last()) {
            (Some(name), _) => Some(format!("{name} was not run (--no-exec)")),
            (None, None) => Some(format!("{} is no selector", network.delegates[0])),
            (None, Some(_)) => None,
        };
        Ok(pools)
    }
}

/// Sets a key of nested objects.
fn nested(object: &mut Object, path: &[&str], value: &Object) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    let mut inner: Object = object.read("", key).ok().flatten().unwrap_or_default();
    if rest.is_empty() {
        for key in value.keys() {
            inner.set_raw(key, value.get(key).expect("it is a key").to_owned());
        }
    } else {
        nested(&mut inner, rest, value);
    }
    object.set(key, &inner);
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
    let last = match reservations::tools::last_reserved(&directory, index) {
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
            let free = candidates
                .iter()
                .find_map(|it| first_free(it.addresses, &taken));
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
