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
        let Choice { pool, claim } = self.choose(&PoolRequest::read(request)?)?;
        let answer = json!({"PoolID": pool.text, "Pool": pool.id.subnet, "Data": {}});
        Ok(Answer::of(&answer).then(self.unless_delivered(claim)))
    }

    /// `ReleasePool`. Other networks may have the same pool, or the same gateway: the sweep releases
    /// what none of them has.
    pub(crate) fn release_pool(&self, request: &ReleasePool) -> Answer {
        if let Some(pool) = self.known_pool(&request.pool_id) {
            self.held.leave_pool(&pool);
        }
        self.sweep_soon();
        Answer::nothing()
    }
}
