//! Dispatches Docker's calls to the drivers, by their paths.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http::answer::Answer;
use crate::http::body::decode;
use crate::http::refusal::Refusal;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::requests::{GLOBAL, LOCAL};
use crate::network::network_driver::NetworkDriver;

/// The drivers.
#[derive(Clone)]
pub(crate) struct Drivers {
    /// Addresses.
    pub(crate) ipam: Arc<IpamDriver>,
    /// Networks.
    pub(crate) networks: Arc<NetworkDriver>,
    /// The networks of which something is being released again.
    pub(crate) busy: Arc<Mutex<HashSet<String>>>,
}

impl Drivers {
    /// Answers a call.
    ///
    /// # Errors
    ///
    /// The path is unknown, the body can't be decoded, or the call can't be done.
    pub(crate) fn answer(&self, path: &str, body: &str) -> Result<Answer, Refusal> {
        let (ipam, networks) = (&self.ipam, &self.networks);
        Ok(match path {
            "/Plugin.Activate" => {
                Answer::of(&json!({"Implements": ["IpamDriver", "NetworkDriver"]}))
            }
            // With a MAC address of Docker's choice for each start, neighbours would keep the old
            // one for half a minute.
            "/IpamDriver.GetCapabilities" => {
                Answer::of(&json!({"RequiresMACAddress": false, "RequiresRequestReplay": false}))
            }
            "/IpamDriver.GetDefaultAddressSpaces" => Answer::of(
                &json!({"LocalDefaultAddressSpace": LOCAL, "GlobalDefaultAddressSpace": GLOBAL}),
            ),
            "/IpamDriver.RequestPool" => ipam.request_pool(decode(body)?)?,
            "/IpamDriver.ReleasePool" => ipam.release_pool(&decode(body)?),
            "/IpamDriver.RequestAddress" => ipam.request_address(&decode(body)?)?,
            // The second is misspelt in Docker's documentation.
            "/IpamDriver.ReleaseAddress" | "/IpamDriver.RleaseAddress" => {
                ipam.release_address(&decode(body)?)?
            }
            "/NetworkDriver.GetCapabilities" => {
                Answer::of(&json!({"Scope": "local", "ConnectivityScope": "local"}))
            }
            // Networks of this driver are local to the node: there is nothing to discover.
            "/NetworkDriver.DiscoverNew" | "/NetworkDriver.DiscoverDelete" => {
                decode::<Value>(body)?;
                Answer::nothing()
            }
            "/NetworkDriver.CreateNetwork" => networks.create_network(&decode(body)?)?,
            "/NetworkDriver.DeleteNetwork" => networks.delete_network(&decode(body)?)?,
            "/NetworkDriver.CreateEndpoint" => networks.create_endpoint(&decode(body)?)?,
            "/NetworkDriver.DeleteEndpoint" => networks.delete_endpoint(&decode(body)?)?,
            "/NetworkDriver.EndpointOperInfo" => networks.endpoint_info(&decode(body)?)?,
            "/NetworkDriver.Join" => networks.join(&decode(body)?)?,
            "/NetworkDriver.Leave" => networks.leave(&decode(body)?)?,
            unknown => {
                let why = format!("{unknown} is not a call that this plugin answers");
                return Err(Refusal::new(404, why));
            }
        })
    }
}
