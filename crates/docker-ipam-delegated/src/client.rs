//! Calls of the daemon, on its socket.

use std::path::Path;

use anyhow::bail;
use hyper::Method;
use serde_json::json;

use crate::http::call;

/// Undoes an endpoint of the network driver, by a call of the daemon on its socket. The ID
/// is never another endpoint's.
///
/// # Errors
///
/// The daemon doesn't answer, or can't undo it.
pub fn delete_endpoint(socket: &Path, network: &str, endpoint: &str) -> anyhow::Result<()> {
    let body = json!({"NetworkID": network, "EndpointID": endpoint});
    let path = "/NetworkDriver.DeleteEndpoint";
    let answer = call(socket, Method::POST, path, body.to_string())?;
    match answer.get("Err").and_then(|it| it.as_str()) {
        Some(error) if !error.is_empty() => bail!("{}: {error}", socket.display()),
        _ => Ok(()),
    }
}
