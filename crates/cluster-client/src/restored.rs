//! An etcd that was restored from an older state: nothing new is claimed until every node has
//! said what lives there.
//!
//! `ipamctl reconcile --begin` writes a mark for each node, and `ipamctl reconcile` removes its
//! node's. Every claim is made on the condition that there is none. A node also remembers the
//! latest state of etcd that it has seen, and refuses an older one of the same cluster.

use std::io;

use cluster::{Cluster, Keys};
use cni::{Error, code};
use etcd::{Client, Compare, Moment, Op, Range, RangeAnswer, Txn};
use serde::{Deserialize, Serialize};
use state_files::StateFolder;

/// Marks that a message names.
const NAMED: u32 = 5;

/// The condition of a claim: no node has to say what lives there.
pub fn is_reconciled(keys: &Keys) -> Compare {
    Compare::none_starts_with(keys.reconciles())
}

/// A read of the marks, for the else-branch.
pub fn read_marks(keys: &Keys) -> Range {
    Range::prefix(keys.reconciles()).keys_only().limit(NAMED)
}

/// Refuses while there are marks, by the answer to [`read_marks`].
///
/// # Errors
///
/// Code 11, naming nodes that have not run `ipamctl reconcile`.
pub fn refuse_marks(keys: &Keys, answer: Option<&RangeAnswer>) -> Result<(), Error> {
    let Some(answer) = answer.filter(|it| !it.kvs.is_empty()) else {
        return Ok(());
    };
    let nodes = answer.kvs.iter().map(|it| keys.parse_reconcile(&it.key));
    let nodes: Vec<&str> = nodes.map(|it| it.unwrap_or("?")).collect();
    let more = if answer.more { " and others" } else { "" };
    Err(Error::new(
        code::TRY_AGAIN_LATER,
        format!(
            "etcd was restored: no address and no block is given before these nodes have run ipamctl reconcile: {}{more}",
            nodes.join(", ")
        ),
    ))
}

/// The latest state of etcd that this node has seen: a file in `etcd.stateDir`.
///
/// It is written without waiting for the disk, and may be missing: then an older etcd isn't
/// noticed, and the procedure of a restore has to be followed.
#[derive(Debug)]
pub struct LatestState {
    folder: StateFolder,
    name: String,
    moment: Option<Moment>,
}

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    cluster: u64,
    revision: i64,
}

impl LatestState {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Code 5, naming the file: it can't be read.
    pub fn open(cluster: &Cluster) -> Result<Self, Error> {
        let path = &cluster.settings.state_dir;
        let folder = StateFolder::create(path).map_err(|e| Error::io(path.display(), e))?;
        let prefix = cluster.settings.prefix.replace('/', "_");
        let name = format!("seen{prefix}_{}.json", cluster.node);
        let content = match folder.read(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.map_err(|e| Error::io(folder.path_of(&name).display(), e))?),
        };
        // A power failure may have cut it off.
        let content = content.and_then(|it| serde_json::from_slice::<Content>(&it).ok());
        let moment = content.map(|it| Moment {
            cluster: it.cluster,
            revision: it.revision,
        });
        Ok(Self {
            folder,
            name,
            moment,
        })
    }

    /// Refuses an etcd that is older than this node has seen it, and marks it: other nodes give
    /// nothing new, either.
    ///
    /// # Errors
    ///
    /// Code 11; those of etcd.
    pub fn refuse_older(&self, cluster: &Cluster, client: &mut Client<'_>) -> Result<(), Error> {
        let (Some(seen), Some(now)) = (self.moment, client.moment()) else {
            return Ok(());
        };
        if now.cluster != seen.cluster || now.revision >= seen.revision {
            return Ok(());
        }
        let mark = cluster.keys.reconcile(&cluster.node);
        client.txn(&Txn {
            when: vec![Compare::is_missing(mark.as_str())],
            then: vec![Op::put(mark, "")],
            otherwise: Vec::new(),
        })?;
        Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!(
                "etcd was restored: it is at revision {}, and this node has seen {}; no address and no block is given before this node has run ipamctl reconcile",
                now.revision, seen.revision
            ),
        ))
    }

    /// Remembers the state of etcd that the client's last answer was of. A failure is logged.
    pub fn remember(&mut self, client: &Client<'_>) {
        let Some(now) = client.moment().filter(|now| Some(*now) != self.moment) else {
            return;
        };
        let content = Content {
            cluster: now.cluster,
            revision: now.revision,
        };
        let json = serde_json::to_vec(&content).expect("numbers are JSON");
        match self.folder.replace(&self.name, &json) {
            Ok(()) => self.moment = Some(now),
            Err(error) => tracing::debug!(%error, "the state of etcd is not remembered"),
        }
    }
}
