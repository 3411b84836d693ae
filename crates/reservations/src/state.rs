use crate::reservation::Reservation;

/// State of an address that has a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Reserved.
    Reserved(Reservation),
    /// Empty or cut off by a crash: nobody's. All writers hold the lock, so whoever holds it sees
    /// no file that is being written.
    Torn,
    /// The file can't be read: reserved, to an unknown holder.
    Unreadable,
    /// A folder, a link or a pipe, which no allocator makes: nobody's, but the name is taken.
    NotAFile,
}
