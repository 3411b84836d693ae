//! Docker's calls, by their paths.

use std::sync::Arc;

use crate::activation;
use crate::answer::Answer;
use crate::ipam_driver::IpamDriver;
use crate::journal::Call;
use crate::network_driver::NetworkDriver;
use crate::refusal::Refusal;

/// The drivers that answer.
pub(crate) struct Drivers {
    /// Addresses.
    pub(crate) ipam: Arc<IpamDriver>,
    /// Networks.
    pub(crate) networks: Arc<NetworkDriver>,
}

/// Answers a call. It may wait for files and processes.
///
/// # Errors
///
/// The path is unknown, the body can't be decoded, or the call can't be done.
pub(crate) fn answer(drivers: &Drivers, call: &Call) -> Result<Answer, Refusal> {
    let Drivers { ipam, networks } = drivers;
    if let Some(answer) = ipam.repeated(call).or_else(|| networks.repeated(call)) {
        return Ok(answer);
    }
    match call.path.as_str() {
        "/Plugin.Activate" => Ok(activation::manifest()),
        "/IpamDriver.GetCapabilities" => Ok(IpamDriver::capabilities()),
        "/IpamDriver.GetDefaultAddressSpaces" => Ok(IpamDriver::default_address_spaces()),
        "/IpamDriver.RequestPool" => ipam.request_pool(call),
        "/IpamDriver.ReleasePool" => ipam.release_pool(call),
        "/IpamDriver.RequestAddress" => ipam.request_address(call),
        // The second is misspelt in Docker's documentation.
        "/IpamDriver.ReleaseAddress" | "/IpamDriver.RleaseAddress" => ipam.release_address(call),
        "/NetworkDriver.GetCapabilities" => Ok(networks.capabilities()),
        "/NetworkDriver.CreateNetwork" => networks.create_network(call),
        "/NetworkDriver.DeleteNetwork" => networks.delete_network(call),
        "/NetworkDriver.CreateEndpoint" => networks.create_endpoint(call),
        "/NetworkDriver.DeleteEndpoint" => networks.delete_endpoint(call),
        "/NetworkDriver.EndpointOperInfo" => networks.endpoint_info(call),
        "/NetworkDriver.Join" => networks.join(call),
        "/NetworkDriver.Leave" => networks.leave(call),
        "/NetworkDriver.DiscoverNew" | "/NetworkDriver.DiscoverDelete" => {
            NetworkDriver::discover(call)
        }
        unknown => Err(Refusal::UnknownPath(unknown.to_owned())),
    }
}
