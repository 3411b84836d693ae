//! Calls to a running daemon, on the socket on which Docker calls it.

use std::path::Path;

use anyhow::bail;
use serde_json::{Value, json};

use crate::docker::api::call;

/// Releases one reference to a pool, by the name of its file in the daemon's state. All other
/// references stay, such as that of a network that is being created. A missing reference counts as
/// released.
///
/// # Errors
///
/// The daemon doesn't answer, or an address of the pool can't be released yet.
pub fn release_pool(socket: &Path, pool: &str, reference: &str) -> anyhow::Result<()> {
    let body = json!({"PoolID": pool, "Reference": reference});
    post(socket, "/IpamDriver.ReleasePool", &body)
}

/// Undoes an endpoint of the network driver. Docker never gives its ID to another endpoint.
///
/// # Errors
///
/// The daemon doesn't answer, or can't undo it.
pub fn delete_endpoint(socket: &Path, network: &str, endpoint: &str) -> anyhow::Result<()> {
    let body = json!({"NetworkID": network, "EndpointID": endpoint});
    post(socket, "/NetworkDriver.DeleteEndpoint", &body)
}

fn post(socket: &Path, path: &str, body: &Value) -> anyhow::Result<()> {
    let answer = call(socket, "POST", path, &body.to_string())?;
    match answer.get("Err").and_then(Value::as_str) {
        Some(error) if !error.is_empty() => bail!("{}: {error}", socket.display()),
        _ => Ok(()),
    }
}
