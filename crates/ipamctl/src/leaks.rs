//! Judges whether an attachment is leaked: no call will release it.

pub(crate) mod container_list;
pub(crate) mod evidence;
pub(crate) mod netns;
pub(crate) mod record_lock;
