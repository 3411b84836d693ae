//! Remembers the subnets of this node's pods, which are read once from the API server.
//!
//! Kubernetes never changes `spec.podCIDRs` of a Node, so a value that was read stays right.
//! An error is remembered for two seconds, since each part of the installation asks.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ipnet::IpNet;

use crate::api_server;
use crate::arguments::Arguments;

/// Time after an error before the API server is asked again.
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
    /// The subnets of the node of these arguments. Nothing is read yet.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        Self {
            node: arguments.node.clone(),
            account: arguments.service_account.clone(),
            last: RefCell::default(),
        }
    }

    /// The subnets, which are read if they aren't known.
    ///
    /// # Errors
    ///
    /// They cannot be read, or there are none.
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
