//! Stage in the life of what was made for Docker: an attachment, a reference to a pool, a
//! gateway, a network.

/// The stage that a file or a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is not known how much of it was made.
    Begun,
    /// It is made, and Docker may not have had the answer.
    Made,
    /// Docker has the answer. Only references to pools are told apart by it: of one pool, Docker
    /// may have fewer than were made.
    Answered,
    /// Docker has given it back. It is not known how much of it was released.
    Ending,
}
