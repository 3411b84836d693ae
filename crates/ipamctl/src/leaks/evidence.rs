//! Evidence that nobody will release an attachment.

use std::time::{Duration, SystemTime};

use cni::Environment;

use crate::leaks::container_id::is_of_a_build;
use crate::leaks::container_list::Valid;
use crate::leaks::netns::{Boot, Namespace};
use crate::node::attachment::Attached;
use crate::node::docker::Standing;
use crate::node::held_address::HoldingState;

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
    Pending(HoldingState),
    /// Docker has no container and no network with it.
    NotDockers,
    /// Docker can't release it: `docker-ipam-delegated` has forgotten it.
    Forgotten,
    /// Docker can't be asked, for this reason.
    DockerUnknown(String),
    /// Whether its namespace is there can't be said, for this reason.
    NetnsUnknown(String),
    /// There is no record, and so no namespace to look at.
    Unknown,
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
            Self::DockerUnknown(_) | Self::NetnsUnknown(_) | Self::Unknown => "unknown",
        }
    }

    /// The evidence for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::NetnsGone(path) => format!("netns {path} is gone"),
            Self::BeforeBoot => "added before the last boot".to_owned(),
            Self::NotValid => "not among the valid containers".to_owned(),
            Self::Pending(state) => format!("{} has not ended", state.as_str()),
            Self::NotDockers => "no container of Docker's has it".to_owned(),
            Self::Forgotten => "docker-ipam-delegated does not remember it".to_owned(),
            Self::DockerUnknown(reason) | Self::NetnsUnknown(reason) => {
                format!("unknown: {reason}")
            }
            Self::Unknown => "unknown: no record, no netns to look at".to_owned(),
        }
    }

    /// True if it says that the attachment is leaked.
    pub(crate) fn is_proof(&self) -> bool {
        self.key() != "unknown"
    }
}

/// True if there is a piece of evidence that says that the attachment is leaked.
pub(crate) fn is_proven(evidence: &[Evidence]) -> bool {
    evidence.iter().any(Evidence::is_proof)
}

/// What attachments are compared with.
pub(crate) struct Evidences<'a> {
    pub(crate) valid: Option<&'a Valid>,
    /// Age from which an ADD or a DEL that hasn't ended is evidence.
    pub(crate) older_than: Duration,
    pub(crate) now: SystemTime,
    /// The time that ages are compared at.
    as_of: SystemTime,
    boot: Boot,
}

impl<'a> Evidences<'a> {
    pub(crate) fn new(
        valid: Option<&'a Valid>,
        older_than: Duration,
        environment: &Environment,
    ) -> Self {
        let now = SystemTime::now();
        Self {
            valid,
            older_than,
            now,
            // A container that began after the list was made isn't in it.
            as_of: valid.map_or(now, |it| now.min(it.made())),
            boot: Boot::read(environment),
        }
    }

    /// The evidence against an attachment; none if its container is valid, or nothing
    /// speaks against it.
    pub(crate) fn of(&self, attached: &Attached<'_>) -> Vec<Evidence> {
        if let Some(holder) = attached.docker() {
            return self.of_docker(attached, &holder.standing);
        }
        let mut found = Vec::new();
        let is_listed = self.valid.map(|it| it.contains(attached.container));
        // A container that is being made just now is in no list yet.
        let is_old = || self.is_unchanged(attached);
        if is_listed == Some(false) && is_old() && !is_of_a_build(attached.container) {
            found.push(Evidence::NotValid);
        }
        if let Some(content) = attached.content() {
            let state = HoldingState::of_record(&attached.record.expect("it has content").listed);
            // A valid container may have been started again, with another namespace.
            if is_listed != Some(true) {
                match Namespace::of(content, &self.boot) {
                    Namespace::There => {}
                    Namespace::Missing => {
                        found.push(Evidence::NetnsGone(content.netns.clone()));
                    }
                    Namespace::BeforeBoot => found.push(Evidence::BeforeBoot),
                    Namespace::Unknown(reason) => found.push(Evidence::NetnsUnknown(reason)),
                }
            }
            if state != HoldingState::Added && self.is_old(content.since()) {
                found.push(Evidence::Pending(state));
            }
        } else if let Some(Err(reason)) = attached.record.map(|it| &it.listed.content)
            && is_listed != Some(true)
        {
            found.push(Evidence::NetnsUnknown(format!("its record: {reason}")));
        } else if found.is_empty() && is_listed.is_none() {
            found.push(Evidence::Unknown);
        }
        found
    }

    /// The network namespace of an attachment; `None` without a record.
    pub(crate) fn namespace(&self, attached: &Attached<'_>) -> Option<Namespace> {
        let content = attached.record?.listed.content.as_ref();
        Some(match content {
            Ok(content) => Namespace::of(content, &self.boot),
            Err(reason) => Namespace::Unknown(format!("its record: {reason}")),
        })
    }

    /// The evidence against an attachment that was made for Docker: Docker alone knows. Its
    /// namespaces say nothing, and it is in no list.
    fn of_docker(&self, attached: &Attached<'_>, standing: &Standing) -> Vec<Evidence> {
        match standing {
            Standing::InUse => Vec::new(),
            Standing::Unknown(reason) => vec![Evidence::DockerUnknown(reason.clone())],
            // Docker may be about to give it to a container.
            Standing::Lost | Standing::Forgotten if !self.is_unchanged(attached) => Vec::new(),
            Standing::Lost => vec![Evidence::NotDockers],
            Standing::Forgotten => vec![Evidence::Forgotten],
        }
    }

    /// True if nothing has happened to it for as long as `older_than`.
    fn is_unchanged(&self, attached: &Attached<'_>) -> bool {
        attached.last_change().is_some_and(|it| self.is_old(it))
    }

    /// True if this is as long ago as `older_than`. A time in the future is not.
    pub(crate) fn is_old(&self, time: SystemTime) -> bool {
        let age = self.as_of.duration_since(time);
        age.is_ok_and(|age| age >= self.older_than)
    }
}
