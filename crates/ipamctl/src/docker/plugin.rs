//! Calls of `docker-ipam-delegated`, as Docker makes them.

use std::path::Path;

use anyhow::{Result, bail};
use hyper::Method;
use serde_json::json;

use super::EndpointId;
use super::http::call;

/// Undoes an endpoint of the network driver. The ID is never another endpoint's.
///
/// # Errors
///
/// The daemon doesn't answer, or can't undo it.
pub(crate) fn delete_endpoint(socket: &Path, id: &EndpointId) -> Result<()> {
    let body = json!({"NetworkID": id.network, "EndpointID": id.endpoint});
    let path = "/NetworkDriver.DeleteEndpoint";
    let answer = call(socket, Method::POST, path, body.to_string())?;
    match answer.get("Err").and_then(|it| it.as_str()) {
        Some(error) if !error.is_empty() => bail!("{}: {error}", socket.display()),
        _ => Ok(()),
    }
}
