//! Protects an engine that was restored from an older state: no address or block is claimed until
//! every node has claimed its own again.
//!
//! `ipamctl reconcile --begin` writes a mark for each node, and `ipamctl reconcile` removes its
//! node's mark. Every claim has the condition that there is no mark. A node also remembers the
//! latest state of the engine that it has seen, and refuses an older one of the same cluster.

mod marks;
mod reconcile;

pub use marks::{clear_mark, mark, mark_nodes, marked};
pub use reconcile::{Reconciled, reconcile_address, reconcile_blocks};

use cni::Error;

use crate::node::state_file::StateFile;
use crate::node::token_file::TokenFile;
use crate::try_again;
use crate::{Change, Condition, Engine, Found, Group, Key, Moment, Node, Read, Registration};

/// The mark of a running import. It names no node. Only an engine without transactions has it.
const IMPORT: &str = ".import";

/// Most marks that a message names.
const NAMED: u32 = 5;

/// The condition of a claim: there are no marks.
pub fn is_reconciled() -> Condition {
    Condition::Empty(Group::Marks)
}

/// A read of the marks, for [`refuse_marks`].
pub fn read_marks() -> Read {
    Read::First(Group::Marks, NAMED)
}

/// Fails if there are marks in the answer to [`read_marks`].
///
/// # Errors
///
/// Code 11, naming nodes that have not run `ipamctl reconcile`.
pub fn refuse_marks(engine: &dyn Engine, found: Option<&Found>) -> Result<(), Error> {
    let Some(found) = found.filter(|found| !found.objects.is_empty()) else {
        return Ok(());
    };
    let nodes = found.objects.iter().map(|mark| match &mark.key {
        Key::Mark(node) => node.as_str(),
        _ => "?",
    });
    let nodes: Vec<&str> = nodes.collect();
    if is_import(found) {
        let mark = engine.path(&Key::Mark(IMPORT.to_owned()));
        return Err(try_again(format!(
            "pools are being imported, or an import was interrupted: no address and no block is given before it is finished; if none runs any more: kubectl delete {mark}, and run the import again"
        )));
    }
    let more = match found.number > nodes.len() as u64 {
        true => " and others",
        false => "",
    };
    Err(try_again(format!(
        "{} was restored: no address and no block is given before these nodes have run ipamctl reconcile: {}{more}",
        engine.name(),
        nodes.join(", ")
    )))
}

/// True if the answer to [`read_marks`] has only the mark of an import.
pub(crate) fn is_import(found: &Found) -> bool {
    let import = Key::Mark(IMPORT.to_owned());
    found.objects.len() == 1 && found.objects[0].key == import
}

/// The latest state of the engine that this node has seen: a file in `stateDir`.
///
/// It is not synced to the disk, and may be missing. Then an older state isn't noticed, so a
/// person must follow the procedure for restores.
#[derive(Debug)]
pub struct LatestState {
    file: StateFile,
    moment: Option<Moment>,
}

impl LatestState {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file: it can't be read.
    pub fn open(node: &Node) -> Result<Self, Error> {
        let file = StateFile::open(&node.state_dir, node.file_name("seen"))?;
        let content = file.read()?;
        // A power failure may have truncated it.
        let moment = content.and_then(|content| serde_json::from_slice(&content).ok());
        Ok(Self { file, moment })
    }

    /// Refuses an engine whose state is older than the latest one that this node has seen. Also
    /// writes this node's mark, so that other nodes give nothing new, either.
    ///
    /// # Errors
    ///
    /// Code 11; those of the engine.
    pub fn refuse_older(&self, node: &Node, engine: &mut dyn Engine) -> Result<(), Error> {
        if self.older(engine).is_none() {
            return Ok(());
        }
        // One answer may be old, such as that of a cache.
        engine.read(&[Read::Count(Group::Pools)])?;
        let Some((now, seen)) = self.older(engine) else {
            return Ok(());
        };
        let mark = Key::Mark(node.name.clone());
        engine.commit(&Change {
            conditions: vec![Condition::Missing(mark.clone())],
            write: vec![(mark, Vec::new())],
            ..Change::default()
        })?;
        Err(try_again(format!(
            "{} was restored: it is at revision {}, and this node has seen {}; no address and no block is given before this node has run ipamctl reconcile",
            engine.name(),
            now.revision,
            seen.revision
        )))
    }

    /// Refuses an engine that doesn't know this machine as this node, if the node has seen another
    /// cluster: what it holds there would not be released. With [`Engine::has_one_id`], another ID
    /// may also be that of a restored cluster, so it proves nothing.
    ///
    /// # Errors
    ///
    /// Code 7; those of the engine; code 5 for a file that can't be read.
    pub fn refuse_another_cluster(
        &self,
        node: &Node,
        engine: &mut dyn Engine,
    ) -> Result<(), Error> {
        let both = engine.moment().zip(self.moment);
        let is_another = both.is_some_and(|(now, seen)| now.cluster != seen.cluster);
        if !is_another || engine.has_one_id() {
            return Ok(());
        }
        // The other cluster may have a machine of the same name.
        let key = Key::Node(node.name.clone());
        let found = engine.get(key.clone())?;
        let registered = found.and_then(|found| Registration::parse(&found.value));
        if let Some(registered) = registered
            && TokenFile::open(node)?.is_of(&node.name, &registered.token)?
        {
            return Ok(());
        }
        let (name, key) = (engine.name(), engine.path(&key));
        let refused = Error::config(format!(
            "{name} doesn't have this machine as {key}, and this node has used another cluster: what it holds there would not be released"
        ));
        Err(refused.with_details(format!(
            "see ipam.{name}; if this cluster is the right one: ipamctl node-register"
        )))
    }

    /// The engine's state and the one that this node has seen, if it is an older one of the same
    /// cluster.
    fn older(&self, engine: &dyn Engine) -> Option<(Moment, Moment)> {
        let (now, seen) = (engine.moment()?, self.moment?);
        let is_older = now.cluster == seen.cluster && now.revision < seen.revision;
        is_older.then_some((now, seen))
    }

    /// Remembers the state of the engine's last answer. A failure is logged.
    pub fn remember(&mut self, engine: &dyn Engine) {
        let Some(now) = engine.moment().filter(|now| Some(*now) != self.moment) else {
            return;
        };
        let json = serde_json::to_vec(&now).expect("numbers are JSON");
        match self.file.replace(&json) {
            Ok(()) => self.moment = Some(now),
            Err(error) => tracing::debug!(%error, "the engine's state is not remembered"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, EngineError, Outcome, Stored, TimeLimit};
    use std::time::Duration;

    /// An engine whose answers have these revisions, one after the other.
    struct Answers {
        revisions: Vec<i64>,
        cluster: u64,
        has_one_id: bool,
        writes: Vec<Key>,
        time: TimeLimit,
    }

    impl Engine for Answers {
        fn name(&self) -> &'static str {
            "memory"
        }

        fn path(&self, key: &Key) -> String {
            format!("{key:?}")
        }

        fn time(&mut self) -> &mut TimeLimit {
            &mut self.time
        }

        fn moment(&self) -> Option<Moment> {
            let revision = *self.revisions.first()?;
            Some(Moment {
                cluster: self.cluster,
                revision,
            })
        }

        fn has_one_id(&self) -> bool {
            self.has_one_id
        }

        fn read(&mut self, reads: &[Read]) -> Result<Vec<Found>, EngineError> {
            self.revisions.remove(0);
            Ok(vec![Found::default(); reads.len()])
        }

        fn list(&mut self, _: &Group, _: bool) -> Result<Vec<Stored>, EngineError> {
            Ok(Vec::new())
        }

        fn commit(&mut self, change: &Change) -> Result<Outcome, EngineError> {
            let written = change.write.iter().map(|(key, _)| key.clone());
            self.writes.extend(written);
            Ok(Outcome::default())
        }
    }

    /// An engine of cluster 1.
    fn answers(revisions: &[i64]) -> Answers {
        Answers {
            revisions: revisions.to_vec(),
            cluster: 1,
            has_one_id: true,
            writes: Vec::new(),
            time: TimeLimit::new(Duration::from_secs(1)),
        }
    }

    fn node(folder: &std::path::Path) -> Node {
        Node {
            name: "n1".to_owned(),
            is_named: true,
            state_dir: folder.join("state"),
            cache_dir: folder.join("cache"),
            prefix: String::new(),
            endpoints: Vec::new(),
            timeout: Duration::from_secs(1),
        }
    }

    /// The code with which a node that has seen revision 7 refuses these answers, and what it
    /// writes.
    fn refusal(revisions: &[i64]) -> (Option<u64>, Vec<Key>) {
        let folder = tempfile::tempdir().unwrap();
        let node = node(folder.path());
        let mut seen = LatestState::open(&node).unwrap();
        seen.remember(&answers(&[7]));
        let mut engine = answers(revisions);
        let refused = seen.refuse_older(&node, &mut engine);
        (refused.err().map(|error| error.code), engine.writes)
    }

    #[test]
    fn an_engine_is_refused_if_it_answers_twice_in_an_older_state() {
        let mark = Key::Mark("n1".to_owned());
        assert_eq!(refusal(&[5, 6]), (Some(11), vec![mark]));
        for answers in [&[5, 7], &[5, 9], &[7, 5], &[8, 5]] {
            assert_eq!(refusal(answers), (None, vec![]), "{answers:?}");
        }
    }

    #[test]
    fn an_older_state_of_another_cluster_is_not_a_restored_one() {
        let folder = tempfile::tempdir().unwrap();
        let node = node(folder.path());
        let mut seen = LatestState::open(&node).unwrap();
        seen.remember(&answers(&[7]));
        let engine = &mut Answers {
            cluster: 2,
            ..answers(&[5, 6])
        };
        assert!(seen.refuse_older(&node, engine).is_ok());
        assert!(engine.writes.is_empty());
    }

    #[test]
    fn another_cluster_that_does_not_know_this_machine_is_refused_if_its_id_proves_it() {
        for (cluster, has_one_id, is_refused) in [
            (1, true, false),
            (1, false, false),
            (2, true, false),
            (2, false, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let node = node(folder.path());
            let mut seen = LatestState::open(&node).unwrap();
            let engine = &mut Answers {
                cluster,
                has_one_id,
                ..answers(&[7, 7])
            };
            // A node that has seen no cluster yet refuses none.
            assert!(seen.refuse_another_cluster(&node, engine).is_ok());
            seen.remember(&answers(&[7]));
            let refused = seen.refuse_another_cluster(&node, engine).err();
            let expected = is_refused.then_some(cni::code::INVALID_CONFIG);
            assert_eq!(refused.map(|error| error.code), expected, "{cluster}");
        }
    }

    #[test]
    fn a_refusal_names_the_marked_nodes_and_says_if_there_are_more() {
        let found = |nodes: &[&str], number| Found {
            objects: nodes
                .iter()
                .map(|node| Stored {
                    key: Key::Mark((*node).to_owned()),
                    value: Vec::new(),
                    revision: 1,
                })
                .collect(),
            number,
        };
        let engine = answers(&[7]);
        let refused = |found: &Found| refuse_marks(&engine, Some(found)).unwrap_err().msg;
        assert!(refuse_marks(&engine, None).is_ok());
        assert!(refuse_marks(&engine, Some(&Found::default())).is_ok());
        let all = refused(&found(&["n1", "n2"], 2));
        assert!(all.ends_with("ipamctl reconcile: n1, n2"), "{all}");
        let more = refused(&found(&["n1", "n2"], 3));
        assert!(
            more.ends_with("ipamctl reconcile: n1, n2 and others"),
            "{more}"
        );
        let import = refused(&found(&[IMPORT], 1));
        assert!(import.starts_with("pools are being imported"), "{import}");
        let both = refused(&found(&[IMPORT, "n1"], 2));
        assert!(both.contains("was restored"), "{both}");
    }
}
