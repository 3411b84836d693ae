//! Evidence that nobody will release an attachment.

use std::time::{Duration, SystemTime};

use chain::record::ListedRecord;
use cni::Environment;
use state_files::Boot;

use crate::leaks::container_list::ContainerList;
use crate::leaks::netns::Namespace;
use crate::node::{HeldState, NetworkAttachment, Standing, is_of_a_build};

/// A piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The recorded network namespace is gone.
    NetnsGone(String),
    /// The ADD was before the last boot, which ended every namespace.
    BeforeBoot,
    /// The container is not among the valid ones.
    NotValid,
    /// ADD or DEL has begun long ago, and hasn't ended.
    Pending(HeldState),
    /// Docker has no container and no network with it.
    NotDockers,
    /// Docker can't release it: `docker-ipam-delegated` has forgotten it.
    Forgotten,
    /// Whether it is leaked is unknown, for this reason.
    Unknown(String),
}

impl Evidence {
    /// Its name in JSON.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::NetnsGone(_) => "netns-gone",
            Self::BeforeBoot => "before-boot",
            Self::NotValid => "not-valid",
            Self::Pending(_) => "pending",
            Self::NotDockers => "not-dockers",
            Self::Forgotten => "forgotten",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The evidence for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::NetnsGone(path) => format!("netns {path} is gone"),
            Self::BeforeBoot => "added before the last boot".to_owned(),
            Self::NotValid => "not among the valid containers".to_owned(),
            Self::Pending(state) => format!("{state} has not ended"),
            Self::NotDockers => "no container of Docker's has it".to_owned(),
            Self::Forgotten => "docker-ipam-delegated does not remember it".to_owned(),
            Self::Unknown(reason) => format!("unknown: {reason}"),
        }
    }
}

/// True if there is a piece of evidence that says that the attachment is leaked.
pub(crate) fn is_proven(evidence: &[Evidence]) -> bool {
    let is_proof = |evidence: &Evidence| !matches!(evidence, Evidence::Unknown(_));
    evidence.iter().any(is_proof)
}

/// Judges attachments.
pub(crate) struct Judge<'a> {
    /// The containers that there are, if a list was given.
    pub(crate) valid: Option<&'a ContainerList>,
    /// Age from which an ADD or a DEL that hasn't ended is evidence.
    pub(crate) older_than: Duration,
    /// The time that ages are compared with.
    as_of: SystemTime,
    /// `None` if the boot's ID can't be read.
    boot: Option<Boot>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        valid: Option<&'a ContainerList>,
        older_than: Duration,
        environment: &Environment,
    ) -> Self {
        let now = SystemTime::now();
        Self {
            valid,
            older_than,
            // A container that began after the list was made isn't in it.
            as_of: valid.map_or(now, |list| now.min(list.made())),
            boot: Boot::current(environment).ok(),
        }
    }

    /// The evidence against an attachment; none if its container is valid, or nothing
    /// speaks against it.
    pub(crate) fn evidence(&self, attachment: &NetworkAttachment<'_>) -> Vec<Evidence> {
        // Docker knows: its namespaces say nothing, and it is in no list.
        if let Some(holder) = attachment.docker() {
            return self
                .of_docker(attachment, &holder.standing)
                .into_iter()
                .collect();
        }
        let mut found = Vec::new();
        let is_listed = self.valid.map(|list| list.contains(attachment.container));
        // A container that is being made just now is in no list yet.
        if is_listed == Some(false)
            && self.is_unchanged(attachment)
            && !is_of_a_build(attachment.container)
        {
            found.push(Evidence::NotValid);
        }
        // A valid container may have been started again, with another namespace.
        let namespace = self
            .namespace(attachment)
            .filter(|_| is_listed != Some(true));
        found.extend(match namespace {
            None | Some(Namespace::There) => None,
            Some(Namespace::Missing) => {
                let netns = attachment.content().map(|content| content.netns.clone());
                Some(Evidence::NetnsGone(netns.unwrap_or_default()))
            }
            Some(Namespace::BeforeBoot) => Some(Evidence::BeforeBoot),
            Some(Namespace::Unknown(reason)) => Some(Evidence::Unknown(reason)),
        });
        if let (Some(content), Some(record)) = (attachment.content(), attachment.record)
            && HeldState::of(record) != HeldState::Added
            && self.is_old(content.since())
        {
            found.push(Evidence::Pending(HeldState::of(record)));
        }
        if attachment.record.is_none() && is_listed.is_none() {
            found.push(Evidence::Unknown(
                "no record, no netns to look at".to_owned(),
            ));
        }
        found
    }

    /// The network namespace of an attachment; `None` without a record.
    pub(crate) fn namespace(&self, attachment: &NetworkAttachment<'_>) -> Option<Namespace> {
        Some(namespace(attachment.record?, self.boot.as_ref()))
    }

    fn of_docker(
        &self,
        attachment: &NetworkAttachment<'_>,
        standing: &Standing,
    ) -> Option<Evidence> {
        match standing {
            Standing::InUse => None,
            Standing::Unknown(reason) => Some(Evidence::Unknown(reason.clone())),
            // Docker may be about to give it to a container.
            _ if !self.is_unchanged(attachment) => None,
            Standing::Lost => Some(Evidence::NotDockers),
            Standing::Forgotten => Some(Evidence::Forgotten),
        }
    }

    /// True if it has not changed for as long as `older_than`.
    fn is_unchanged(&self, attachment: &NetworkAttachment<'_>) -> bool {
        attachment
            .last_change()
            .is_some_and(|time| self.is_old(time))
    }

    /// True if this is as long ago as `older_than`. A time in the future is not.
    pub(crate) fn is_old(&self, time: SystemTime) -> bool {
        let age = self.as_of.duration_since(time);
        age.is_ok_and(|age| age >= self.older_than)
    }
}

/// The network namespace that a record names.
pub(crate) fn namespace(record: &ListedRecord, boot: Option<&Boot>) -> Namespace {
    match &record.content {
        Ok(content) => Namespace::of(content, boot),
        Err(reason) => Namespace::Unknown(format!("its record: {reason}")),
    }
}
