//! `ipamctl show`: an attachment with its chain and the answer of each delegate, by its record.

use std::net::IpAddr;
use std::time::SystemTime;

use anyhow::{Result, anyhow};
use chain::record::{AttachmentRecord, Namespace};
use cni::without_secrets;
use ipam_da_dhcp::Lease;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Context;
use crate::arguments::Target;
use crate::inventory::{Inventory, NetworkAttachment, NodeScope, Row, attachments, select};
use crate::leases::{lease_text, recorded_leases};
use crate::local_node::LocalNode;
use crate::output::times::ago;

/// An attachment. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    #[serde(skip)]
    attachment: &'a NetworkAttachment<'a>,
    /// The row of its first address in `ls`.
    #[serde(flatten)]
    first: &'a Row,
    addresses: Vec<IpAddr>,
    /// The files of its reservations, or their names in a cluster.
    files: Vec<String>,
    conflist: Option<String>,
    netns: Option<&'a str>,
    /// `null` if it is unknown.
    netns_gone: Option<bool>,
    record_problem: Option<&'a str>,
    trace: Option<&'a str>,
    /// Leases of DHCP, as the record has them.
    leases: Vec<Lease>,
    delegates: Vec<Answer<'a>>,
    /// Without passwords.
    config: Option<Box<RawValue>>,
}

/// A delegate of the ADD. It was given the answer of the one before it as `prevResult`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    name: &'a str,
    /// `null` if it isn't recorded.
    answered: Option<&'a RawValue>,
}

pub(crate) fn run(target: &Target, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let inventory = Inventory::read(node, NodeScope::ThisNodeAndOwners);
    let all = attachments(&inventory.rows);
    let found = select(&all, target);
    let found = found.map_err(|error| anyhow!(inventory.unless_unread(error)))?;
    let shown: Vec<Details<'_>> = found.iter().map(|one| Details::new(one, node)).collect();
    context.print(&shown, || {
        let texts: Vec<Vec<String>> = shown.iter().map(Details::lines).collect();
        texts.join(&String::new())
    })?;
    inventory.verdict(false)
}

impl<'a> Details<'a> {
    fn new(attachment: &'a NetworkAttachment<'_>, node: &'a LocalNode) -> Self {
        let (content, record) = (attachment.content(), attachment.record);
        let files = attachment.addresses.iter().filter_map(|row| row.file());
        let recorded = content.map(|content| &content.delegates);
        let delegates = recorded.into_iter().flatten().map(|delegate| Answer {
            name: delegate.name.as_str(),
            answered: delegate.result.as_deref(),
        });
        let raw = content.map(AttachmentRecord::raw_config);
        let config = raw.map(|raw| without_secrets(raw.get()).into_owned());
        let network = node.network(attachment.network);
        let problem = record.and_then(|record| record.content.as_ref().err());
        Self {
            attachment,
            first: attachment.addresses[0],
            addresses: attachment.ips().collect(),
            files: files.map(|file| file.display().to_string()).collect(),
            conflist: network.map(|network| network.file.display().to_string()),
            netns: content.map(|content| content.netns.as_str()),
            netns_gone: content.and_then(|content| match content.namespace() {
                Namespace::There => Some(false),
                Namespace::Gone(_) => Some(true),
                Namespace::Unknown(_) => None,
            }),
            record_problem: problem.map(String::as_str),
            trace: content.map(|content| content.trace.as_str()),
            leases: content.map(recorded_leases).unwrap_or_default(),
            delegates: delegates.collect(),
            config: config.and_then(|json| RawValue::from_string(json).ok()),
        }
    }

    fn lines(&self) -> Vec<String> {
        let first = self.first;
        let mut lines = vec![self.attachment.to_string()];
        let mut line = |key: &str, value: &str| lines.push(format!("  {key:<10}{value}"));
        let known = first.since.map(|since| ago(since, SystemTime::now()));
        let since = known.as_deref().unwrap_or("at an unknown time");
        line("state", &format!("{}, {since}", first.state));
        if let Some(owner) = &first.owner {
            line("owner", owner);
        }
        for (key, value) in first.names.pairs() {
            line("name", &format!("{key}={value}"));
        }
        line("conflist", self.conflist.as_deref().unwrap_or("none"));
        for file in &self.files {
            line("reserved", file);
        }
        let record = first.record.as_ref();
        let file = record.map(|record| record.file.display().to_string());
        line("record", file.as_deref().unwrap_or("none"));
        if let Some(problem) = self.record_problem {
            line("broken", problem);
        }
        if let Some(netns) = self.netns {
            let gone = match self.netns_gone {
                Some(true) => " (gone)",
                Some(false) => "",
                None => " (unknown whether it is there)",
            };
            line("netns", &format!("{netns}{gone}"));
        }
        for lease in &self.leases {
            line("lease", &lease_text(lease));
        }
        line("trace", self.trace.unwrap_or("none"));
        for (i, delegate) in self.delegates.iter().enumerate() {
            let answered = delegate.answered.map_or("not recorded", RawValue::get);
            lines.push(format!("  {}. {}: {answered}", i + 1, delegate.name));
        }
        lines
    }
}
