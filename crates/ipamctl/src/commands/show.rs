//! `ipamctl show`: one attachment, its chain, and the answer of each delegate.

mod chain_drawing;

use std::net::IpAddr;
use std::time::SystemTime;

use anyhow::Result;
use cni::without_secrets;
use serde::Serialize;
use serde_json::value::RawValue;
use state_files::Boot;

use crate::arguments::target::Target;
use crate::context::Context;
use crate::leaks::netns::Namespace;
use crate::node::{
    Extent, HeldState, Inventory, Names, NetworkAttachment, Node, attachments, held_addresses,
    select,
};
use crate::output::times::{self, ago};
use crate::output::{Output, Style};
use chain_drawing::ShownDelegate;

/// An attachment. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(rename = "containerID")]
    container: &'a str,
    ifname: Option<&'a str>,
    network: &'a str,
    conflist: Option<String>,
    names: &'a Names,
    state: HeldState,
    /// Start of the ADD, or of the DEL that has begun; without a record, of the reservation.
    #[serde(serialize_with = "times::serialize")]
    since: Option<SystemTime>,
    netns: Option<&'a str>,
    /// `null` if it is unknown.
    netns_gone: Option<bool>,
    /// The reason why it is unknown.
    netns_unknown: Option<String>,
    addresses: Vec<ShownAddress<'a>>,
    record: Option<String>,
    record_problem: Option<&'a str>,
    trace: Option<&'a str>,
    boot: Option<&'a str>,
    delegates: Vec<ShownDelegate<'a>>,
    /// Without passwords.
    config: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct ShownAddress<'a> {
    address: IpAddr,
    pool: Option<&'a str>,
    file: Option<String>,
}

pub(crate) fn run(words: &[String], context: &Context<'_>) -> Result<bool> {
    let (node, output) = (&context.node(), context.output);
    let target = Target::read(words).map_err(anyhow::Error::msg)?;
    let inventory = Inventory::read(node, Extent::All);
    let all = attachments(held_addresses(&inventory));
    let found = select(&all, &target).map_err(anyhow::Error::msg)?;
    let boot = Boot::current(&node.environment).ok();
    let shown = found.iter().map(|one| Shown::new(one, node, boot.as_ref()));
    let shown: Vec<Shown<'_>> = shown.collect();
    output.print(&shown, || {
        let texts = shown.iter().map(|one| one.lines(node, output));
        let texts: Vec<Vec<String>> = texts.collect();
        texts.join(&String::new())
    })?;
    inventory.verdict(false)
}

impl<'a> Shown<'a> {
    fn new(attachment: &'a NetworkAttachment<'_>, node: &'a Node, boot: Option<&Boot>) -> Self {
        let content = attachment.content();
        let record = attachment.record;
        let netns = content.map(|content| content.netns.as_str());
        let namespace = content.map(|content| Namespace::of(content, boot));
        let (netns_gone, netns_unknown) = match namespace {
            None => (None, None),
            Some(Namespace::There) => (Some(false), None),
            Some(Namespace::Missing | Namespace::BeforeBoot) => (Some(true), None),
            Some(Namespace::Unknown(reason)) => (None, Some(reason)),
        };
        let addresses = attachment.addresses.iter().filter_map(|held| {
            Some(ShownAddress {
                address: held.ip?,
                pool: held.pool,
                file: held.file().map(|file| file.display().to_string()),
            })
        });
        let mut given = None;
        let delegates = content.map(|content| &content.delegates);
        let delegates = delegates.into_iter().flatten().map(|delegate| {
            let answered = delegate.result.as_deref();
            ShownDelegate {
                name: delegate.name.as_str(),
                given: std::mem::replace(&mut given, answered),
                answered,
            }
        });
        let config = content.and_then(|content| content.raw_config());
        let config = config.map(|raw| without_secrets(raw.get()).into_owned());
        let network = node.network(attachment.network);
        Self {
            container: attachment.container,
            ifname: attachment.ifname,
            network: attachment.network,
            conflist: network.map(|network| network.file.display().to_string()),
            names: attachment.names(),
            state: attachment.record.map_or(HeldState::Reserved, HeldState::of),
            since: match content {
                Some(content) => Some(content.since()),
                None => attachment.last_change(),
            },
            netns: netns.filter(|netns| !netns.is_empty()),
            netns_gone,
            netns_unknown,
            addresses: addresses.collect(),
            record: record.map(|record| record.file.display().to_string()),
            record_problem: record
                .and_then(|record| record.content.as_ref().err())
                .map(String::as_str),
            trace: content.map(|content| content.trace.as_str()),
            boot: content.and_then(|content| content.boot.as_deref()),
            delegates: delegates.collect(),
            config: config.and_then(|json| RawValue::from_string(json).ok()),
        }
    }

    fn lines(&self, node: &Node, output: Output) -> Vec<String> {
        let name = self.names.short();
        let title = if name.is_empty() {
            self.container
        } else {
            &name
        };
        let mut lines = vec![output.styled(Style::Bold, title)];
        let mut line = |key: &str, value: &str| lines.push(format!("  {key:<11}{value}"));
        line("container", self.container);
        line("interface", self.ifname.unwrap_or("any"));
        let file = self.conflist.as_deref().unwrap_or("in no conflist");
        line("network", &format!("{} ({file})", self.network));
        let since = self.since.map(|since| ago(since, SystemTime::now()));
        let since = since.as_deref().unwrap_or("at an unknown time");
        line("state", &format!("{}, {since}", self.state));
        if let Some(netns) = self.netns {
            let gone = match (self.netns_gone, &self.netns_unknown) {
                (Some(true), _) => " (gone)".to_owned(),
                (_, Some(reason)) => format!(" (unknown: {reason})"),
                _ => String::new(),
            };
            line("netns", &format!("{netns}{gone}"));
        }
        for shown in &self.addresses {
            let mut text = shown.address.to_string();
            text.extend(shown.pool.map(|pool| format!(" of pool {pool}")));
            text.extend(shown.file.iter().map(|file| format!(" ({file})")));
            line("address", &text);
        }
        for (key, value) in self.names.pairs() {
            line("", &format!("{key}={value}"));
        }
        match (&self.record, self.record_problem) {
            (Some(record), None) => line("record", record),
            (Some(record), Some(problem)) => line("record", &format!("{record}: {problem}")),
            (None, _) => line("record", "none: host-local's, or the record is lost"),
        }
        if let Some(trace) = self.trace.filter(|trace| !trace.is_empty()) {
            line("trace", trace);
        }
        let network = node.network(self.network);
        let main = network.map_or("main plugin", |network| network.main.kind.as_str());
        lines.extend(chain_drawing::lines(&self.delegates, main));
        lines
    }
}
