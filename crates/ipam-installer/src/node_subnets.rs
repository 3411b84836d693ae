//! Caches the subnets of this node's pods, which are read once from the API server.
//!
//! Kubernetes never changes `spec.podCIDRs` of a Node, so a value never expires. An error is kept
//! for two seconds, because each part of the installation needs the subnets.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ipnet::IpNet;

use crate::api_server;
use crate::arguments::Arguments;

/// After an error, the API server isn't asked again for this time.
const PAUSE: Duration = Duration::from_secs(2);

/// Subnets, or the text of the error.
type Answer = Result<Vec<IpNet>, String>;

/// The subnets of a node.
#[derive(Debug)]
pub(crate) struct NodeSubnets {
    node: Option<String>,
    account: PathBuf,
    /// The last answer or error, with its time.
    last: RefCell<Option<(Instant, Answer)>>,
}

impl NodeSubnets {
    /// The subnets of the arguments' node. Reads nothing yet.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        Self {
            node: arguments.node.clone(),
            account: arguments.service_account.clone(),
            last: RefCell::default(),
        }
    }

    /// The subnets. Reads them if they aren't known.
    ///
    /// # Errors
    ///
    /// They can't be read, or there are none.
    pub(crate) fn get(&self) -> Result<Vec<IpNet>> {
        let mut last = self.last.borrow_mut();
        let answer = match last.take() {
            Some((at, answer)) if answer.is_ok() || at.elapsed() < PAUSE => (at, answer),
            _ => {
                let read = self.read().map_err(|error| format!("{error:#}"));
                (Instant::now(), read)
            }
        };
        let (_, subnets) = last.insert(answer);
        subnets.clone().map_err(|error| anyhow!(error))
    }

    fn read(&self) -> Result<Vec<IpNet>> {
        let node = self.node.as_deref();
        let node = node.context("--node doesn't say which node this is")?;
        api_server::pod_cidrs(&self.account, node)
    }
}
