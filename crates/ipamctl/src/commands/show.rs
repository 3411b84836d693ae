//! `ipamctl show`: one attachment, its chain, and the answer of each delegate.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use anyhow::Result;
use cni::{IpamResult, Object, without_secrets};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::arguments::ShowArguments;
use crate::arguments::target::Target;
use crate::exit_status::Status;
use crate::leaks::netns::{Boot, Namespace};
use crate::node::Node;
use crate::node::attachment::{Attached, attached, named};
use crate::node::held_address::HoldingState;
use crate::node::inventory::{Extent, Inventory};
use crate::node::network::CHAIN;
use crate::node::one_address;
use crate::node::pools::of_answer;
use crate::output::times::{ago, rfc3339};
use crate::output::{Output, Style};

/// An attachment. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(rename = "containerID")]
    container: &'a str,
    ifname: Option<&'a str>,
    network: &'a str,
    conflist: Option<String>,
    names: BTreeMap<String, String>,
    state: &'static str,
    since: Option<String>,
    netns: Option<&'a str>,
    /// `null` if it is unknown.
    netns_gone: Option<bool>,
    /// The reason why it is unknown.
    netns_unknown: Option<String>,
    addresses: Vec<ShownAddress>,
    record: Option<String>,
    record_problem: Option<&'a str>,
    trace: Option<&'a str>,
    boot: Option<&'a str>,
    delegates: Vec<ShownDelegate<'a>>,
    /// Without passwords.
    config: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct ShownAddress {
    address: IpAddr,
    pool: Option<String>,
    file: Option<String>,
}

/// A delegate of the ADD.
#[derive(Debug, Serialize)]
struct ShownDelegate<'a> {
    name: &'a str,
    /// `prevResult` that it was given; `null` for none.
    given: Option<&'a RawValue>,
    /// Its answer; `null` if it isn't recorded.
    answered: Option<&'a RawValue>,
}

pub(crate) fn run(arguments: &ShowArguments, node: &Node, output: Output) -> Result<Status> {
    let target = Target::read(&arguments.target).map_err(anyhow::Error::msg)?;
    let quick = match &target {
        Target::Address(ip, _) | Target::Either(_, ip) => one_address::inventory_of(node, *ip),
        Target::Container(_) | Target::Exact(_) => None,
    };
    let inventory = quick.unwrap_or_else(|| Inventory::read(node, Extent::All));
    inventory.warn();
    let all = attached(inventory.holdings());
    let found = named(&all, &target).map_err(anyhow::Error::msg)?;
    if output.json {
        let shown: Vec<Shown<'_>> = found.iter().map(|it| shown(it, node)).collect();
        Output::json(&shown)?;
        return inventory.verdict(Status::Fine);
    }
    for (i, it) in found.iter().enumerate() {
        if i > 0 {
            output.lines([""])?;
        }
        output.lines(text(it, &shown(it, node), node, output))?;
    }
    inventory.verdict(Status::Fine)
}

fn shown<'a>(it: &'a Attached<'a>, node: &Node) -> Shown<'a> {
    let content = it.content();
    let record = it.record.map(|it| &it.listed);
    let netns = content
        .map(|it| it.netns.as_str())
        .filter(|it| !it.is_empty());
    let namespace = content.map(|it| Namespace::of(it, &Boot::read(&node.environment)));
    let mut given = None;
    let delegates = content.into_iter().flat_map(|it| &it.delegates);
    Shown {
        container: it.container,
        ifname: it.ifname,
        network: it.network,
        conflist: node
            .network(it.network)
            .map(|it| it.file.display().to_string()),
        names: it.names().pairs().clone(),
        state: record
            .map_or(HoldingState::Reserved, HoldingState::of_record)
            .as_str(),
        since: since(it).map(rfc3339),
        netns,
        netns_gone: match namespace {
            Some(Namespace::There) => Some(false),
            Some(Namespace::Missing | Namespace::BeforeBoot) => Some(true),
            Some(Namespace::Unknown(_)) | None => None,
        },
        netns_unknown: match namespace {
            Some(Namespace::Unknown(reason)) => Some(reason),
            _ => None,
        },
        addresses: it
            .holdings
            .iter()
            .filter_map(|it| {
                let ip = it.ip?;
                let directory = it.directory.map(|it| it.path.join(ip.to_string()));
                Some(ShownAddress {
                    address: ip,
                    pool: it.pool_name().map(str::to_owned),
                    file: directory.map(|it| it.display().to_string()),
                })
            })
            .collect(),
        record: record.map(|it| it.file.display().to_string()),
        record_problem: record.and_then(|it| it.content.as_ref().err().map(String::as_str)),
        trace: content.map(|it| it.trace.as_str()),
        boot: content.and_then(|it| it.boot.as_deref()),
        delegates: delegates
            .map(|it| {
                let answered = it.result.as_deref();
                let shown = ShownDelegate {
                    name: it.name.as_str(),
                    given,
                    answered,
                };
                given = answered;
                shown
            })
            .collect(),
        config: content
            .and_then(|it| it.raw_config())
            .and_then(|it| RawValue::from_string(without_secrets(it.get()).into_owned()).ok()),
    }
}

/// Start of the ADD, or of the DEL that has begun; without a record, the reservation's.
fn since(it: &Attached<'_>) -> Option<SystemTime> {
    match it.content() {
        Some(content) => Some(content.since()),
        None => it.last_change(),
    }
}

fn text(it: &Attached<'_>, shown: &Shown<'_>, node: &Node, output: Output) -> Vec<String> {
    let name = it.names().short();
    let title = if name.is_empty() {
        it.container.to_owned()
    } else {
        name
    };
    let mut lines = vec![output.styled(Style::Bold, &title)];
    let mut line = |key: &str, value: &str| lines.push(format!("  {key:<11}{value}"));
    line("container", it.container);
    line("interface", it.ifname.unwrap_or("any"));
    let file = shown.conflist.as_deref().unwrap_or("in no conflist");
    line("network", &format!("{} ({file})", it.network));
    let since = since(it).map(|since| ago(since, SystemTime::now()));
    line(
        "state",
        &format!(
            "{}, {}",
            shown.state,
            since.as_deref().unwrap_or("at an unknown time")
        ),
    );
    if let Some(netns) = shown.netns {
        let gone = match (shown.netns_gone, &shown.netns_unknown) {
            (Some(true), _) => " (gone)".to_owned(),
            (_, Some(reason)) => format!(" (unknown: {reason})"),
            _ => String::new(),
        };
        line("netns", &format!("{netns}{gone}"));
    }
    for address in &shown.addresses {
        let pool = address.pool.as_ref().map(|it| format!(" of pool {it}"));
        let file = address.file.as_ref().map(|it| format!(" ({it})"));
        line(
            "address",
            &format!(
                "{}{}{}",
                address.address,
                pool.unwrap_or_default(),
                file.unwrap_or_default()
            ),
        );
    }
    for (key, value) in &shown.names {
        line("", &format!("{key}={value}"));
    }
    match (&shown.record, shown.record_problem) {
        (Some(record), None) => line("record", record),
        (Some(record), Some(problem)) => line("record", &format!("{record}: {problem}")),
        (None, _) => line("record", "none: host-local's, or the record is lost"),
    }
    if let Some(trace) = shown.trace.filter(|it| !it.is_empty()) {
        line("trace", trace);
    }
    let main = node.network(it.network).map(|it| it.main.kind.clone());
    lines.extend(chain(
        &shown.delegates,
        main.as_deref().unwrap_or("main plugin"),
    ));
    lines
}

/// The chain as a drawing, then each delegate with what it was given and what it answered.
fn chain(delegates: &[ShownDelegate<'_>], main: &str) -> Vec<String> {
    if delegates.is_empty() {
        return Vec::new();
    }
    let width = delegates.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let start = format!("  {main} ── {CHAIN} ─");
    let mut lines = vec![String::new()];
    let mut earlier: Option<&RawValue> = None;
    for (i, it) in delegates.iter().enumerate() {
        let branch = match (i, delegates.len()) {
            (_, 1) => "──",
            (0, _) => "┬─",
            (i, n) if i + 1 == n => "└─",
            _ => "├─",
        };
        let indent = if i == 0 {
            start.clone()
        } else {
            " ".repeat(start.chars().count())
        };
        let summary = it.answered.map_or_else(
            || "no answer is recorded".to_owned(),
            |answer| added(earlier, answer),
        );
        lines.push(format!("{indent}{branch} {:<width$}  {summary}", it.name));
        earlier = it.answered;
    }
    for (i, it) in delegates.iter().enumerate() {
        lines.push(String::new());
        lines.push(format!("  {}. {}", i + 1, it.name));
        let given = match (i, it.given) {
            (0, _) => "the configuration of the ADD, without prevResult".to_owned(),
            (_, Some(_)) => format!("the answer of {} as prevResult", delegates[i - 1].name),
            (_, None) => "unknown".to_owned(),
        };
        lines.push(format!("     given     {given}"));
        let answered = it.answered.map_or("not recorded", RawValue::get);
        lines.push(format!("     answered  {answered}"));
    }
    lines
}

/// What a delegate has added to the answer of the one before it, in short.
fn added(earlier: Option<&RawValue>, answer: &RawValue) -> String {
    let ips = |raw: &RawValue| -> Vec<IpAddr> {
        let result = IpamResult::read("result", raw);
        result.map_or_else(
            |_| Vec::new(),
            |it| it.ips.iter().map(cni::IpConfig::ip).collect(),
        )
    };
    let before = earlier.map(ips).unwrap_or_default();
    let new: Vec<String> = ips(answer)
        .iter()
        .filter(|ip| !before.contains(ip))
        .map(ToString::to_string)
        .collect();
    if !new.is_empty() {
        return new.join(", ");
    }
    let pools = of_answer(answer).unwrap_or_default();
    let pools: Vec<String> = pools
        .iter()
        .map(|pool| match &pool.name {
            Some(name) => format!("pool {name} ({})", pool.ranges),
            None => format!("pool {}", pool.ranges),
        })
        .collect();
    if !pools.is_empty() {
        return pools.join(", ");
    }
    let object: Option<Object> = serde_json::from_str(answer.get()).ok();
    let keys: Vec<String> = object
        .iter()
        .flat_map(Object::keys)
        .map(str::to_owned)
        .collect();
    format!("keys {}", keys.join(", "))
}
