//! Docker's calls for pools.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;

use crate::http::answer::Answer;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::pool_choice::Choice;
use crate::ipam::requests::{PoolRequest, ReleasePool, RequestPool};

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or there is no such pool.
    pub(crate) fn request_pool(self: &Arc<Self>, request: RequestPool) -> Result<Answer> {
        let request = PoolRequest::read(request)?;
        let Choice { pool, claim } = self.choose(&request)?;
        let answer = json!({"PoolID": pool.text, "Pool": pool.id.subnet, "Data": {}});
        let driver = Arc::clone(self);
        Ok(Answer::of(&answer).then(move |is_delivered| {
            if let Some(claim) = claim.filter(|_| !is_delivered) {
                let subnet = pool.id.subnet;
                tracing::warn!(%subnet, "Docker closed the connection before it got this pool");
                // A failed release is repeated.
                let _ = driver.release(&claim);
            }
        }))
    }

    /// `ReleasePool`: releases the claim of the subnet, and the gateway if the network's creation
    /// has failed. Auxiliary addresses are the sweep's then.
    ///
    /// # Errors
    ///
    /// One of them can't be released now.
    pub(crate) fn release_pool(&self, request: &ReleasePool) -> Result<Answer> {
        let Some(pool) = self.known_pool(&request.pool_id) else {
            return Ok(Answer::nothing());
        };
        self.read_records_of(&pool);
        let of_network = self.held.leave_pool(&pool.text).into_iter();
        let released = of_network.map(|held| self.release(&held));
        released.fold(Ok(()), Result::and)?;
        Ok(Answer::nothing())
    }
}
