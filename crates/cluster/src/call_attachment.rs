use cni::Attachment;

use crate::{Held, Node};

/// The attachment of a call, on the call's network and on this node.
#[derive(Clone, Copy, Debug)]
pub struct CallAttachment<'a> {
    /// Name and machine of the node.
    pub node: &'a Node,
    /// Name of the CNI network.
    pub network: &'a str,
    /// Container and interface.
    pub attachment: &'a Attachment,
}

impl<'a> CallAttachment<'a> {
    /// This attachment, on this network and this node.
    pub(crate) fn new(node: &'a Node, network: &'a str, attachment: &'a Attachment) -> Self {
        Self {
            node,
            network,
            attachment,
        }
    }

    /// True if it is the holder of the address.
    pub(crate) fn holds(self, held: &Held) -> bool {
        held.holder.as_ref().is_some_and(|holder| {
            holder.is_on(self.node) && holder.is_attachment(self.network, self.attachment)
        })
    }

    /// True if an owner is the holder, for this network and interface: the attachment may have the
    /// address.
    pub(crate) fn may_share(self, held: &Held) -> bool {
        held.holder.as_ref().is_some_and(|holder| {
            holder.owner.is_some()
                && holder.network == self.network
                && holder.ifname == self.attachment.ifname.as_str()
        })
    }
}
