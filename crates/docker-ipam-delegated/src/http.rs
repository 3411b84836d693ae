//! Docker's plugin protocol: HTTP on a unix socket, and JSON.
//!
//! `socket` listens and says who may call; `connection` reads one call and writes one answer, and tells the
//! [`Answer`](answer::Answer) whether Docker has received it: what nobody has received is undone.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod refusal;
pub(crate) mod socket;
