//! Docker's calls, by their paths.

use std::sync::Arc;

use crate::activation;
use crate::answer::Answer;
use crate::comparison::Comparison;
use crate::ipam_driver::IpamDriver;
use crate::network_driver::NetworkDriver;
use crate::refusal::Refusal;

/// A call of Docker's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The path: `/IpamDriver.RequestPool`.
    pub(crate) path: String,
    /// The body, as it came.
    pub(crate) body: String,
}

/// The drivers that answer.
pub(crate) struct Drivers {
    /// Addresses.
    pub(crate) ipam: Arc<IpamDriver>,
    /// Networks.
    pub(crate) networks: Arc<NetworkDriver>,
    /// What Docker is asked for.
    pub(crate) comparison: Arc<Comparison>,
}

/// Answers a call that waits for nothing; `None` for any other.
pub(crate) fn answer_at_once(drivers: &Drivers, call: &Call) -> Option<Result<Answer, Refusal>> {
    match call.path.as_str() {
        "/Plugin.Activate" => Some(Ok(activation::manifest())),
        "/IpamDriver.GetCapabilities" => {
            // A dockerd may have started: it may lack what the last one had.
            drivers.comparison.is_due();
            Some(Ok(IpamDriver::capabilities()))
        }
        "/IpamDriver.GetDefaultAddressSpaces" => Some(Ok(IpamDriver::default_address_spaces())),
        "/NetworkDriver.DiscoverNew" | "/NetworkDriver.DiscoverDelete" => {
            Some(NetworkDriver::discover(call))
        }
        _ => None,
    }
}

/// Answers any other call. It may wait for files and processes.
///
/// # Errors
///
/// The path is unknown, the body can't be decoded, or the call can't be done.
pub(crate) fn answer(drivers: &Drivers, call: &Call) -> Result<Answer, Refusal> {
    let Drivers {
        ipam,
        networks,
        comparison,
    } = drivers;
    match call.path.as_str() {
        "/IpamDriver.RequestPool" => ipam.request_pool(call),
        "/IpamDriver.ReleasePool" => ipam.release_pool(call),
        "/IpamDriver.RequestAddress" => ipam.request_address(call),
        // The second is misspelt in Docker's documentation.
        "/IpamDriver.ReleaseAddress" | "/IpamDriver.RleaseAddress" => ipam.release_address(call),
        "/NetworkDriver.GetCapabilities" => {
            comparison.is_due();
            Ok(networks.capabilities())
        }
        "/NetworkDriver.CreateNetwork" => networks.create_network(call),
        "/NetworkDriver.DeleteNetwork" => networks.delete_network(call),
        "/NetworkDriver.CreateEndpoint" => networks.create_endpoint(call),
        "/NetworkDriver.DeleteEndpoint" => networks.delete_endpoint(call),
        "/NetworkDriver.EndpointOperInfo" => networks.endpoint_info(call),
        "/NetworkDriver.Join" => networks.join(call),
        "/NetworkDriver.Leave" => networks.leave(call),
        unknown => Err(Refusal::UnknownPath(unknown.to_owned())),
    }
}
