//! Docker's calls for pools.

use std::sync::Arc;

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::given::Holder;
use crate::ipam::ipam_bodies;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::live_pools::Dropped;
use crate::ipam::requests::PoolRequest;
use crate::ipam::waiting_releases::Release;
use crate::lock::lock;
use crate::state::pool::Pool;

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong, or nothing has such a pool.
    pub(crate) fn request_pool(
        self: &Arc<Self>,
        request: ipam_bodies::RequestPool,
    ) -> Result<Answer, Refusal> {
        let request = PoolRequest::read(request)?;
        self.refuse_unread_pools()?;
        let chosen = self.choice.choose(&request, &self.chains)?;
        let _one_at_a_time = lock(&self.adding);
        let live = self.pools.all();
        let others: Vec<&Pool> = live.iter().map(|live| &live.pool).collect();
        let mut pool = self.choice.place(chosen, &request, &others)?;
        if let Some(same) = others.iter().find(|other| other.id() == pool.id()) {
            if same.facts != pool.facts {
                return Err(impossible(format!(
                    "{}: another network has this pool with other options: {:?}, not {:?}",
                    pool.id(),
                    same.facts,
                    pool.facts
                )));
            }
            pool = (*same).clone();
        }
        let answer = Answer::of(&ipam_bodies::Pool {
            pool_id: pool.id(),
            pool: pool.subnet.to_string(),
            data: ipam_bodies::Options::new(),
        });
        let files = &self.files.pools;
        let file = files.make(&pool).map_err(|error| cant_remember(&error))?;
        let pool = self.pools.refer(pool, &file, true);
        let driver = Arc::clone(self);
        Ok(answer.then(move |is_delivered| {
            if is_delivered {
                driver.files.pools.note_answered(&file);
                return;
            }
            tracing::warn!(pool = pool.id, "Docker has gone before it had this pool");
            let dropped = driver.pools.drop_reference(&pool.id, Some(&file), |_| ());
            drop(pool);
            if let Some(dropped) = dropped {
                // What can't be released is tried again.
                let _ = driver.end_reference(dropped);
            }
        }))
    }

    /// `ReleasePool`. With the last reference, all addresses of the pool are released.
    /// An unknown pool has been released, and so has an unknown reference.
    ///
    /// # Errors
    ///
    /// An address can't be released now. The pool has ended nevertheless: Docker only logs
    /// the error, and has forgotten the network.
    pub(crate) fn release_pool(
        &self,
        request: &ipam_bodies::ReleasePool,
    ) -> Result<Answer, Refusal> {
        let reference = request.reference.as_deref();
        let id = &request.pool_id;
        let note = |file: &str| self.files.pools.note_ending(file);
        match self.pools.drop_reference(id, reference, note) {
            Some(dropped) => self.end_reference(dropped)?,
            None => {
                tracing::warn!(pool = id, "released, and not known");
                self.compare.notify_one();
            }
        }
        Ok(Answer::nothing())
    }

    /// Ends a reference, and with the last one its pool: what is left of the pool is released.
    ///
    /// # Errors
    ///
    /// An address can't be released now.
    fn end_reference(&self, dropped: Dropped) -> Result<(), Refusal> {
        let mut failed = Vec::new();
        for release in self.end_pool(dropped) {
            let ip = release.ip;
            if let Err(why) = self.release(release) {
                let ip = ip.map_or_else(|| "an address".to_owned(), |ip| ip.to_string());
                failed.push(format!("{ip}: {why}"));
            }
        }
        self.remove_ended_pools();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(impossible(format!("released later: {}", failed.join("; ")))),
        }
    }

    /// Ends a reference, as [`Self::end_reference`], and leaves what is to be released to the
    /// releases that wait.
    pub(crate) fn end_reference_later(&self, dropped: Dropped) {
        for release in self.end_pool(dropped) {
            self.releases.put(release);
        }
        self.remove_ended_pools();
    }

    /// Ends a reference, and with the last one its pool; returns what is to be released. The
    /// file of the last reference stays as long as a release or a call has the pool.
    fn end_pool(&self, dropped: Dropped) -> Vec<Release> {
        let Dropped { file, ended } = dropped;
        let Some(ended) = ended else {
            self.files.pools.remove(&file);
            return Vec::new();
        };
        for reference in ended.references {
            self.files.pools.remove(&reference);
        }
        let pool = ended.pool;
        let mut attachments = Vec::new();
        for (ip, holder) in ended.addresses {
            match holder {
                Holder::Gateway(file) => self.files.gateways.remove(&file),
                Holder::Attachment(id) => attachments.push((Some(ip), id)),
            }
        }
        let unread = self.unread_attachments(&pool).into_iter();
        attachments.extend(unread.map(|id| (None, id)));
        self.releases.put_ended(Arc::clone(&pool), file);
        let release = |(ip, container_id)| Release {
            pool: Arc::clone(&pool),
            ip,
            container_id,
        };
        attachments.into_iter().map(release).collect()
    }
}
