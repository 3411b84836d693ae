//! Docker's network driver: networks whose endpoints are made by CNI plugins.
//!
//! A network is a file with its options (`network_driver`), an endpoint is its record (`endpoint`).
//! `endpoint_calls` makes one: a namespace (`namespaces`), in which `plugin_list` runs the plugins of the
//! network configuration; what their result means to Docker is in `cni_result` and `endpoint_answers`.
//! `undo` takes back whatever part of an endpoint there is.

pub(crate) mod cni_result;
pub(crate) mod endpoint;
pub(crate) mod endpoint_answers;
pub(crate) mod endpoint_calls;
pub(crate) mod namespaces;
pub(crate) mod network_bodies;
pub(crate) mod network_calls;
pub(crate) mod network_driver;
pub(crate) mod plugin_list;
pub(crate) mod ports;
pub(crate) mod undo;
