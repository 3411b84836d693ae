//! Docker's calls, by their paths.

use std::sync::Arc;

use crate::activation;
use crate::answer::Answer;
use crate::ipam_driver::IpamDriver;
use crate::journal::Call;
use crate::refusal::Refusal;

/// Answers a call. It may wait for files and processes.
///
/// # Errors
///
/// The path is unknown, the body can't be decoded, or the call can't be done.
pub(crate) fn answer(ipam: &Arc<IpamDriver>, call: &Call) -> Result<Answer, Refusal> {
    if let Some(answer) = ipam.repeated(call) {
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
        unknown => Err(Refusal::UnknownPath(unknown.to_owned())),
    }
}
