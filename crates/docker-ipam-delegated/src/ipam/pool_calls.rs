//! Docker's calls for pools.

use anyhow::Result;
use serde_json::json;

use crate::http::answer::Answer;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::requests::{PoolRequest, ReleasePool, RequestPool};

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or there is no such pool.
    pub(crate) fn request_pool(&self, request: RequestPool) -> Result<Answer> {
        let request = PoolRequest::read(request)?;
        let pool = self.choose(&request)?;
        let answer = json!({"PoolID": pool.text, "Pool": pool.id.subnet, "Data": {}});
        Ok(Answer::of(&answer))
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
        let of_network = self.held.leave_pool(&pool.text).into_iter();
        let released = of_network.map(|held| self.release(&held));
        released.fold(Ok(()), Result::and)?;
        Ok(Answer::nothing())
    }
}
