//! What the unit tests are about.

use cni::Attachment;

/// `eth0` of `c1`.
pub(crate) fn attachment() -> Attachment {
    Attachment {
        container_id: "c1".parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}
