//! Docker's plugin protocol: HTTP on a unix socket, and JSON.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod refusal;
pub(crate) mod socket;
