//! Reads the addresses that nodes hold: those of an attachment from this node's index, others by
//! their labels.

use std::time::SystemTime;

use cluster::{EngineError, HeldKey, Holding, Key, Kind as Failure, Stored};

use super::Engine;
use crate::node_objects::annotate;
use crate::objects::{held, stored};
use crate::{Item, Resource};

/// Annotation of a registration: since this time, addresses of the node are being created
/// elsewhere, or are those of a restored state. Until it is removed, the node's index isn't
/// complete.
pub(super) const TAKING_OVER: &str = "ipam-delegated.io/addresses-being-taken-over";

impl Engine<'_> {
    /// Tells a node that addresses are created for it elsewhere from now on, or that its addresses
    /// are those of a restored state. Until [`Self::end_taking_over`], or until the restore has
    /// ended on the node, it asks the API server which addresses an attachment has, even if this
    /// process is killed. (A node without a registration asks it anyway.)
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn begin_taking_over(&mut self, node: &str) -> Result<(), EngineError> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        annotate(&mut self.client, node, |all| {
            all.insert(TAKING_OVER.to_owned(), now.clone());
        })
    }

    /// Tells a node that no more addresses are created for it elsewhere.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn end_taking_over(&mut self, node: &str) -> Result<(), EngineError> {
        // For a node that has registered meanwhile.
        self.begin_taking_over(node)?;
        annotate(&mut self.client, node, |all| {
            all.remove(TAKING_OVER);
        })
    }

    /// The addresses that nodes hold.
    pub(super) fn holding(&mut self, holding: &Holding) -> Result<Vec<Stored>, EngineError> {
        if let Some(found) = self.indexed(holding, &[])?
            && self.is_index_current()?
        {
            return Ok(found);
        }
        // By the labels that the API server's policy protects.
        let with = match (&holding.node, &holding.pool) {
            (Some(node), _) => Some(("node", node.as_str())),
            (None, pool) => pool.as_deref().map(|pool| ("pool", pool)),
        };
        let items = self.labelled(Resource::Address, with, false)?;
        Ok(items
            .iter()
            .filter_map(|item| of_holding(item, holding))
            .collect())
    }

    /// The addresses of an attachment on this node from the index, except for those with these
    /// names; `None` if the index isn't complete.
    pub(super) fn indexed(
        &mut self,
        holding: &Holding,
        but: &[&str],
    ) -> Result<Option<Vec<Stored>>, EngineError> {
        let (Some(node), Some(network), Some(of)) =
            (&holding.node, &holding.network, &holding.attachment)
        else {
            return Ok(None);
        };
        if node != self.node || !self.complete_index()? {
            return Ok(None);
        }
        let names = self.index.as_ref().map(|index| index.of(network, of));
        let Some(Ok(names)) = names else {
            return Ok(None);
        };
        let mut found = Vec::new();
        for name in names.iter().filter(|name| !but.contains(&name.as_str())) {
            if let Some(item) = self.client.get(Resource::Address, name)? {
                found.extend(of_holding(&item, holding));
            }
        }
        Ok(Some(found))
    }

    /// True if the index has all addresses of this node. If that is unknown, lists them. Of many
    /// callers at the same time, one requests the list, and the others wait for it.
    fn complete_index(&mut self) -> Result<bool, EngineError> {
        let cluster = self.client.cluster_id()?;
        let lock = match &self.index {
            None => return Ok(false),
            Some(index) if index.is_complete(cluster) => return Ok(true),
            Some(index) => index.lock_of_lists(),
        };
        // The other half is for this caller's own request, if the wait is in vain.
        let at_most = self.client.time.remaining() / 2;
        let listed = lock.and_then(|lock| {
            lock.with_lock(at_most, || {
                let index = self.index.as_ref();
                Ok(
                    match index.is_some_and(|index| index.is_complete(cluster)) {
                        true => Ok(true),
                        false => self.list_index(cluster),
                    },
                )
            })
        });
        listed.unwrap_or_else(|error| {
            tracing::warn!(%error, "the index of this node's addresses can't be locked");
            Ok(false)
        })
    }

    /// Notes all addresses of this node in the index; false if the index can't be written.
    fn list_index(&mut self, cluster: u64) -> Result<bool, EngineError> {
        let registration = self.client.get(Resource::IpamNode, self.node)?;
        let registration = registration.map(|item| item.revision);
        let items = self.labelled(Resource::Address, Some(("node", self.node)), false)?;
        let all = items.iter().filter_map(held);
        let own: Vec<_> = all.filter(|held| held.node == self.node).collect();
        let completed = self
            .index
            .as_ref()
            .map(|index| index.complete(cluster, registration, &own));
        if let Some(Err(error)) = &completed {
            tracing::warn!(%error, "the index of this node's addresses can't be written");
        }
        Ok(matches!(completed, Some(Ok(()))))
    }

    /// True if no address of this node was created elsewhere after the index was completed.
    /// Otherwise completes the index again.
    fn is_index_current(&mut self) -> Result<bool, EngineError> {
        let cluster = self.client.cluster_id()?;
        let Some(registration) = self.client.get(Resource::IpamNode, self.node)? else {
            return Ok(false);
        };
        if registration.annotations.contains_key(TAKING_OVER) {
            return Ok(false);
        }
        let index = self.index.as_ref();
        let is_current = index.is_some_and(|index| index.follows(cluster, registration.revision));
        match is_current {
            true => self.registration = Some(registration),
            false => _ = self.list_index(cluster)?,
        }
        Ok(is_current)
    }

    /// Notes an address of this node that will be created.
    pub(super) fn note(&mut self, held: &HeldKey) -> Result<(), EngineError> {
        match &self.index {
            Some(index) if held.node == self.node => index.note(held).map_err(|error| {
                let msg = format!("the index of this node's addresses: {error}");
                EngineError::new(Failure::Io, msg)
            }),
            _ => Ok(()),
        }
    }

    /// Removes the note of an address of this node that doesn't exist. A superfluous note only
    /// costs a request.
    pub(super) fn forget(&mut self, held: Option<&HeldKey>) {
        if let (Some(index), Some(held)) = (&self.index, held)
            && held.node == self.node
            && let Err(error) = index.forget(held)
        {
            tracing::debug!(%error, "the index keeps an address that is gone");
        }
    }
}

/// The address as an entry of this holding; `None` if it belongs to another.
fn of_holding(item: &Item, holding: &Holding) -> Option<Stored> {
    let held = held(item)?;
    let of = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
    let is_held = of(&holding.node, &held.node)
        && holding
            .network
            .as_ref()
            .is_none_or(|network| *network == held.network)
        && holding
            .attachment
            .as_ref()
            .is_none_or(|attachment| *attachment == held.attachment)
        && of(&holding.pool, held.pool.as_str());
    is_held.then(|| Stored {
        key: Key::Held(held),
        ..stored(Resource::Address, item)
    })
}
