//! An engine that was restored from an older state: nothing new is claimed until every node has
//! said what lives there.
//!
//! `ipamctl reconcile --begin` writes a mark for each node, and `ipamctl reconcile` removes its
//! node's. Every claim is made on the condition that there is none. A node also remembers the
//! latest state of the engine that it has seen, and refuses an older one of the same cluster.

mod marks;
mod reconcile;

pub use marks::{clear_mark, mark, mark_nodes, marked};
pub use reconcile::{Reconciled, reconcile_address, reconcile_blocks};

use cni::Error;

use crate::node::state_file::StateFile;
use crate::try_again;
use crate::{Change, Condition, Engine, Found, Group, Key, Moment, Node, Read};

/// The mark of an import that goes on. It names no node. Only an engine without transactions has it.
const IMPORT: &str = ".import";

/// Marks that a message names.
const NAMED: u32 = 5;

/// The condition of a claim: no node has to say what lives there.
pub fn is_reconciled() -> Condition {
    Condition::Empty(Group::Marks)
}

/// A read of the marks, for [`refuse_marks`].
pub fn read_marks() -> Read {
    Read::First(Group::Marks, NAMED)
}

/// Refuses while there are marks, by the answer to [`read_marks`].
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

/// True if the answer to [`read_marks`] has the mark of an import alone.
pub(crate) fn is_import(found: &Found) -> bool {
    let import = Key::Mark(IMPORT.to_owned());
    found.objects.len() == 1 && found.objects[0].key == import
}

/// The latest state of the engine that this node has seen: a file in `stateDir`.
///
/// It is written without waiting for the disk, and may be missing: then an older state isn't
/// noticed, and the procedure of a restore has to be followed.
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
        // A power failure may have cut it off.
        let moment = content.and_then(|content| serde_json::from_slice(&content).ok());
        Ok(Self { file, moment })
    }

    /// Refuses an engine whose state is older than this node has seen it, and marks it: other
    /// nodes give nothing new, either.
    ///
    /// # Errors
    ///
    /// Code 11; those of the engine.
    pub fn refuse_older(&self, node: &Node, engine: &mut dyn Engine) -> Result<(), Error> {
        let (Some(seen), Some(now)) = (self.moment, engine.moment()) else {
            return Ok(());
        };
        if now.cluster != seen.cluster || now.revision >= seen.revision {
            return Ok(());
        }
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
