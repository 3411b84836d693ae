//! Evidence that an attachment is leaked.

use std::time::{Duration, SystemTime};

use cni::Environment;
use state_files::Boot;

use crate::leaks::container_list::ContainerList;
use crate::leaks::netns::Namespace;
use crate::node::{HeldState, NetworkAttachment, Standing, is_of_a_build};

/// A piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Its name in JSON, which is documented.
    pub(crate) key: &'static str,
    /// The evidence for people.
    pub(crate) text: String,
}

/// The key of evidence that proves nothing.
const UNKNOWN: &str = "unknown";

impl Evidence {
    fn new(key: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { key, text }
    }

    /// Whether the attachment is leaked is unknown, for this reason.
    fn unknown(reason: &str) -> Self {
        Self::new(UNKNOWN, format!("unknown: {reason}"))
    }
}

/// True if a piece of evidence proves that the attachment is leaked.
pub(crate) fn is_proven(evidence: &[Evidence]) -> bool {
    evidence.iter().any(|evidence| evidence.key != UNKNOWN)
}

/// Judges attachments.
pub(crate) struct Judge<'a> {
    /// The list of the runtime's containers, if there is one.
    pub(crate) valid: Option<&'a ContainerList>,
    /// Minimum age of an attachment, or of an unfinished ADD or DEL, for evidence.
    pub(crate) older_than: Duration,
    /// The time that ages are compared with.
    as_of: SystemTime,
    /// `None` if the boot ID can't be read.
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

    /// The evidence that an attachment is leaked; empty if its container is valid.
    pub(crate) fn evidence(&self, attachment: &NetworkAttachment<'_>) -> Vec<Evidence> {
        let changed = attachment.last_change();
        let is_unchanged = changed.is_some_and(|time| self.is_old(time));
        // Only Docker's answer counts: no list has its containers, and the namespaces aren't theirs.
        if let Some(holder) = attachment.docker() {
            let evidence = match &holder.standing {
                Standing::Unknown(reason) => Evidence::unknown(reason),
                Standing::Lost if is_unchanged => {
                    Evidence::new("not-dockers", "no container of Docker's has it")
                }
                Standing::Forgotten if is_unchanged => {
                    Evidence::new("forgotten", "docker-ipam-delegated does not remember it")
                }
                // Docker may be about to give it to a container.
                _ => return Vec::new(),
            };
            return vec![evidence];
        }
        let mut found = Vec::new();
        let is_listed = self.valid.map(|list| list.contains(attachment.container));
        // No list has a container that is just being created.
        if is_listed == Some(false) && is_unchanged && !is_of_a_build(attachment.container) {
            found.push(Evidence::new("not-valid", "not among the valid containers"));
        }
        // A valid container may have been restarted with another namespace.
        let namespace = self.namespace(attachment);
        found.extend(match namespace.filter(|_| is_listed != Some(true)) {
            None | Some(Namespace::There) => None,
            Some(Namespace::Missing) => {
                let netns = attachment.content().map_or("", |content| &content.netns);
                Some(Evidence::new(
                    "netns-gone",
                    format!("netns {netns} is gone"),
                ))
            }
            Some(Namespace::BeforeBoot) => {
                Some(Evidence::new("before-boot", "added before the last boot"))
            }
            Some(Namespace::Unknown(reason)) => Some(Evidence::unknown(&reason)),
        });
        let state = attachment.record.map(HeldState::of);
        if let (Some(content), Some(state)) = (attachment.content(), state)
            && state != HeldState::Added
            && self.is_old(content.since())
        {
            found.push(Evidence::new("pending", format!("{state} has not ended")));
        }
        if attachment.record.is_none() && is_listed.is_none() {
            found.push(Evidence::unknown("no record, no netns to look at"));
        }
        found
    }

    /// The network namespace of an attachment; `None` without a record.
    pub(crate) fn namespace(&self, attachment: &NetworkAttachment<'_>) -> Option<Namespace> {
        Some(match &attachment.record?.content {
            Ok(content) => Namespace::of(content, self.boot.as_ref()),
            Err(reason) => Namespace::Unknown(format!("its record: {reason}")),
        })
    }

    /// True for a time that is at least `older_than` ago.
    pub(crate) fn is_old(&self, time: SystemTime) -> bool {
        let age = self.as_of.duration_since(time);
        age.is_ok_and(|age| age >= self.older_than)
    }
}
