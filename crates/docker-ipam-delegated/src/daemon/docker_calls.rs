//! Dispatches Docker's calls to the drivers, by their paths.

use std::sync::Arc;

use serde_json::json;

use crate::daemon::comparison::Comparison;
use crate::http::answer::Answer;
use crate::http::call::{Call, Calls};
use crate::http::refusal::Refusal;
use crate::ipam::ipam_driver::IpamDriver;
use crate::network::network_driver::NetworkDriver;

/// The drivers that answer.
pub(crate) struct Drivers {
    /// Addresses.
    pub(crate) ipam: Arc<IpamDriver>,
    /// Networks.
    pub(crate) networks: Arc<NetworkDriver>,
    /// What Docker is asked for.
    pub(crate) comparison: Arc<Comparison>,
}

impl Calls for Drivers {
    fn answer_at_once(&self, call: &Call) -> Option<Result<Answer, Refusal>> {
        match call.path.as_str() {
            "/Plugin.Activate" => Some(Ok(manifest())),
            "/IpamDriver.GetCapabilities" => {
                // A dockerd may have started: it may lack what the last one had.
                self.comparison.is_due();
                Some(Ok(IpamDriver::capabilities()))
            }
            "/IpamDriver.GetDefaultAddressSpaces" => Some(Ok(IpamDriver::default_address_spaces())),
            "/NetworkDriver.DiscoverNew" | "/NetworkDriver.DiscoverDelete" => {
                Some(NetworkDriver::discover(call))
            }
            _ => None,
        }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Refusal> {
        let Self {
            ipam,
            networks,
            comparison,
        } = self;
        match call.path.as_str() {
            "/IpamDriver.RequestPool" => ipam.request_pool(call),
            "/IpamDriver.ReleasePool" => ipam.release_pool(call),
            "/IpamDriver.RequestAddress" => ipam.request_address(call),
            // The second is misspelt in Docker's documentation.
            "/IpamDriver.ReleaseAddress" | "/IpamDriver.RleaseAddress" => {
                ipam.release_address(call)
            }
            "/NetworkDriver.GetCapabilities" => {
                // A dockerd that starts calls it, and so does swarm mode.
                networks.collect();
                comparison.is_due();
                Ok(NetworkDriver::capabilities())
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
}

/// `Plugin.Activate`: which drivers the daemon has.
fn manifest() -> Answer {
    Answer::plain(json!({"Implements": ["IpamDriver", "NetworkDriver"]}).to_string())
}
