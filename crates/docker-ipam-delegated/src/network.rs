//! Docker's network driver: networks whose endpoints are made by CNI plugins.

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
