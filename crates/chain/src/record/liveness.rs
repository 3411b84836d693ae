//! Whether an attachment is alive, by its record and its network namespace.

use std::path::Path;

use crate::record::attachment_record::{AttachmentRecord, RecordState};
use crate::record::namespace::{Namespace, NamespaceId, is_namespace};

/// Links to the host's network namespace: the first process's, and this one's.
const OF_HOST: [&str; 2] = ["/proc/1/ns/net", "/proc/self/ns/net"];

/// What a record says of its attachment's life, with the reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its network namespace is there, and its runtime hasn't begun to delete it. It is alive,
    /// whichever runtime doesn't list it.
    Alive(String),
    /// Its network namespace is gone.
    Gone(String),
    /// Its ADD has not ended, or its DEL has begun.
    LetGo(String),
    /// Whether its network namespace is there can't be told now. It counts as alive.
    Unknown(String),
    /// Its `CNI_NETNS` proves nothing: it was missing at the ADD, it is no namespace, or it is the
    /// host's own.
    Unproven(String),
}

impl AttachmentRecord {
    /// Whether the attachment is alive.
    pub fn liveness(&self) -> Liveness {
        match self.state {
            RecordState::Adding => return Liveness::LetGo("its ADD did not end".to_owned()),
            RecordState::Deleting => return Liveness::LetGo("its DEL has begun".to_owned()),
            RecordState::Added => {}
        }
        match (self.namespace(), &self.netns_id) {
            (Namespace::Gone(reason), _) => Liveness::Gone(reason),
            (Namespace::Unknown(reason), None) => Liveness::Unproven(reason),
            (Namespace::Unknown(reason), Some(_)) => Liveness::Unknown(reason),
            (Namespace::There, recorded) => of_existing(&self.netns, recorded.as_ref()),
        }
    }
}

/// The liveness of an attachment whose `CNI_NETNS` leads to the recorded file.
fn of_existing(netns: &str, recorded: Option<&NamespaceId>) -> Liveness {
    let is_hosts = |link: &&str| {
        let id = NamespaceId::of(Path::new(link)).ok();
        id.zip(recorded).is_some_and(|(id, own)| id.is_same(own))
    };
    match is_namespace(Path::new(netns)) {
        Ok(true) if OF_HOST.iter().any(is_hosts) => {
            Liveness::Unproven(format!("netns {netns} is the host's own"))
        }
        Ok(true) => Liveness::Alive(format!("its network namespace {netns} is there")),
        Ok(false) => Liveness::Unproven(format!("netns {netns} is no namespace")),
        Err(error) => Liveness::Unknown(format!("netns {netns}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::line::{Intent, Line};
    use crate::tests::{attachment, config};
    use cni::Environment;

    /// The record of an ADD that has ended, with this `CNI_NETNS`.
    fn added(netns: &str) -> AttachmentRecord {
        let environment = Environment::default().with("CNI_NETNS", netns);
        let intent = Intent::new(&config(""), &attachment(), &[], &environment);
        let mut record = AttachmentRecord::new(intent).unwrap();
        record.note(Line::Added {}).unwrap();
        record
    }

    #[test]
    fn a_namespace_that_is_there_is_alive_until_its_del_has_begun() {
        // Not a network namespace, so not the host's one.
        let mut record = added("/proc/self/ns/uts");
        assert!(matches!(record.liveness(), Liveness::Alive(_)));
        record.state = RecordState::Adding;
        assert!(matches!(record.liveness(), Liveness::LetGo(_)));
        record.state = RecordState::Deleting;
        assert!(matches!(record.liveness(), Liveness::LetGo(_)));
    }

    #[test]
    fn the_hosts_own_namespace_and_what_is_none_prove_nothing() {
        for netns in ["/proc/self/ns/net", "/dev/null", "/run/netns/no-such-one"] {
            let liveness = added(netns).liveness();
            assert!(matches!(liveness, Liveness::Unproven(_)), "{liveness:?}");
        }
    }

    #[test]
    fn a_namespace_that_is_gone_is_told_from_one_that_can_not_be_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netns");
        std::fs::write(&path, "").unwrap();
        let record = added(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(record.liveness(), Liveness::Gone(_)));
        std::os::unix::fs::symlink("/nowhere/netns", &path).unwrap();
        let liveness = record.liveness();
        assert!(matches!(liveness, Liveness::Unknown(_)), "{liveness:?}");
    }
}
