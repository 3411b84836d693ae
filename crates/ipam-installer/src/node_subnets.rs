//! The subnets of this node's pods: read once from the API server, and then known.
//!
//! Kubernetes never changes `spec.podCIDRs` of a Node, so a value that was read stays right.
//! An error is remembered for a moment: each part of the installation asks.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ipnet::IpNet;

use crate::api_server;
use crate::arguments::Arguments;

/// Time after an error before the API server is asked again.
const PAUSE: Duration = Duration::from_secs(2);

/// The subnets, and how they are read.
#[derive(Debug)]
pub(crate) struct NodeSubnets {
    node: Option<String>,
    account: PathBuf,
    state: RefCell<State>,
}

#[derive(Debug)]
enum State {
    NotRead,
    Known(Vec<IpNet>),
    Failed { at: Instant, why: String },
}

impl NodeSubnets {
    /// Those of the node of these arguments. Nothing is read yet.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        Self {
            node: arguments.node.clone(),
            account: arguments.service_account.clone(),
            state: RefCell::new(State::NotRead),
        }
    }

    /// The subnets, which are read if they aren't known.
    ///
    /// # Errors
    ///
    /// They can't be read, or there are none.
    pub(crate) fn get(&self) -> Result<Vec<IpNet>> {
        let mut state = self.state.borrow_mut();
        match &*state {
            State::Known(subnets) => return Ok(subnets.clone()),
            State::Failed { at, why } if at.elapsed() < PAUSE => bail!("{why}"),
            _ => {}
        }
        let node = self.node.as_deref();
        let node = node.context("--node doesn't say which node this is");
        let read = node.and_then(|it| api_server::pod_cidrs(&self.account, it));
        *state = match &read {
            Ok(subnets) => State::Known(subnets.clone()),
            Err(error) => State::Failed {
                at: Instant::now(),
                why: format!("{error:#}"),
            },
        };
        read
    }
}
