//! Docker's calls for addresses of a pool.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use cni::ContainerId;

use crate::answer::Answer;
use crate::chains::address_in;
use crate::ipam_driver::{IpamDriver, NOTHING, cant_remember, json, remove};
use crate::journal::{Call, Journal};
use crate::memory::ATTACHMENT;
use crate::pool::Address;
use crate::refusal::{Refusal, impossible};
use crate::requests;
use crate::state::{Held, LivePool};
use crate::{configuration, facts, wire};

impl IpamDriver {
    /// `RequestAddress`.
    ///
    /// # Errors
    ///
    /// The request is wrong, the address is somebody's, or the pool has none left.
    pub(crate) fn request_address(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: wire::RequestAddress = wire::decode(&call.body)?;
        let pool = self.pool(&request.pool_id)?;
        let _pool_stays = pool.requests.read().unwrap_or_else(PoisonError::into_inner);
        // It may have gone meanwhile.
        self.pool(&request.pool_id)?;
        let requested = requests::address(&request.address, pool.pool.subnet)?;
        let gateway = gateway_of(&pool);
        if facts::is_for_gateway(&request.options) {
            let is_fixed = pool.gateway().is_some() || !pool.pool.is_given;
            let wanted = requested.unwrap_or(gateway);
            if wanted == gateway || !is_fixed {
                if pool.is_held(wanted) {
                    return Err(impossible(format!(
                        "{wanted} is another container's, of pool {}",
                        pool.id
                    )));
                }
                return self.give_gateway(call, &pool, wanted);
            }
        }
        self.give(call, &pool, requested, gateway, &request.options)
    }

    /// Gives an address out of the chain.
    fn give(
        self: &Arc<Self>,
        call: &Call,
        pool: &Arc<LivePool>,
        requested: Option<IpAddr>,
        gateway: IpAddr,
        options: &wire::Options,
    ) -> Result<Answer, Refusal> {
        let config = configuration::of_address(&pool.pool, requested, Some(gateway))?;
        let name = self.memory.addresses.new_name();
        let container_id: ContainerId = format!("{ATTACHMENT}{name}")
            .parse()
            .map_err(|_| impossible(&name))?;
        let mut address = Address {
            pool: pool.id.clone(),
            ip: None,
            container_id: Some(container_id.clone()),
        };
        let folder = self.memory.addresses.folder();
        let mut journal = Journal::begin(folder, &name, call, address.clone())
            .map_err(|error| cant_remember(&error))?;
        let args = facts::cni_args(&pool.pool.facts, options);
        let result = self.chains.add(&config, &container_id, &args);
        let result = result.map_err(|error| {
            journal.remove();
            of_pool(&pool.id, &error.into())
        })?;
        let held = Held {
            name,
            container_id: Some(container_id),
        };
        let undo = |why: Refusal| {
            match self.release(pool, &held) {
                Ok(()) => remove(&self.memory.addresses, &held.name),
                Err(error) => tracing::warn!(%error, "released at the next start"),
            }
            why
        };
        let ip =
            address_in(&result, pool.pool.subnet).filter(|ip| requested.is_none_or(|it| it == *ip));
        let ip = ip.ok_or_else(|| {
            undo(impossible(format!(
                "pool {}: the chain gave no address of it",
                pool.id
            )))
        })?;
        address.ip = Some(ip);
        let answer = answer_of(pool, ip);
        journal
            .made(address, &answer)
            .map_err(|error| undo(cant_remember(&error)))?;
        for stale in pool.give(ip, held) {
            tracing::warn!(pool = pool.id, %ip, stale.name, "was released without Docker");
            remove(&self.memory.addresses, &stale.name);
        }
        Ok(self.made_address(answer, journal, Arc::clone(pool), ip))
    }

    /// Gives the pool's gateway, which no chain gives to anybody.
    fn give_gateway(
        self: &Arc<Self>,
        call: &Call,
        pool: &Arc<LivePool>,
        ip: IpAddr,
    ) -> Result<Answer, Refusal> {
        let name = self.memory.addresses.new_name();
        let address = Address {
            pool: pool.id.clone(),
            ip: Some(ip),
            container_id: None,
        };
        let folder = self.memory.addresses.folder();
        let mut journal = Journal::begin(folder, &name, call, address.clone())
            .map_err(|error| cant_remember(&error))?;
        let answer = answer_of(pool, ip);
        if let Err(error) = journal.made(address, &answer) {
            journal.remove();
            return Err(cant_remember(&error));
        }
        let container_id = None;
        pool.put(ip, Held { name, container_id });
        Ok(self.made_address(answer, journal, Arc::clone(pool), ip))
    }

    pub(crate) fn made_address(
        self: &Arc<Self>,
        answer: String,
        mut journal: Journal<Address>,
        pool: Arc<LivePool>,
        ip: IpAddr,
    ) -> Answer {
        let driver = Arc::clone(self);
        Answer::then(answer, move |is_delivered| {
            if is_delivered {
                journal.answered();
                return;
            }
            tracing::warn!(pool = pool.id, %ip, "Docker has gone before it had this address");
            let Some(held) = pool.take(ip, Some(journal.name())) else {
                return;
            };
            driver.unanswered.forget(&held.name);
            match driver.release(&pool, &held) {
                Ok(()) => journal.remove(),
                Err(error) => {
                    tracing::warn!(%error, pool = pool.id, %ip, "can't be released");
                    pool.put(ip, held);
                }
            }
        })
    }

    /// `ReleaseAddress`. An unknown address has been released.
    ///
    /// # Errors
    ///
    /// The chain can't release it.
    pub(crate) fn release_address(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: wire::ReleaseAddress = wire::decode(&call.body)?;
        let Some(pool) = self.state.pool(&request.pool_id) else {
            tracing::warn!(
                pool = request.pool_id,
                ip = request.address,
                "released, and the pool is not known"
            );
            return Ok(Answer::plain(NOTHING));
        };
        let ip = requests::address(&request.address, pool.pool.subnet)?;
        let ip =
            ip.ok_or_else(|| impossible("Address is missing: it names what is to be released"))?;
        let Some(held) = pool.take(ip, None) else {
            return Ok(Answer::plain(NOTHING));
        };
        let journal = Journal::<Address>::open(self.memory.addresses.folder(), &held.name)
            .and_then(|mut journal| journal.ending(call).map(|()| journal));
        let released = match journal {
            Ok(journal) => self.release(&pool, &held).map(|()| journal),
            Err(error) => Err(cant_remember(&error)),
        };
        match released {
            Ok(mut journal) => {
                self.unanswered.forget(&held.name);
                journal.ended();
                Ok(Answer::then(NOTHING, move |_| journal.remove()))
            }
            Err(why) => {
                pool.put(ip, held);
                Err(of_pool(&pool.id, &why))
            }
        }
    }

    /// Releases what an attachment holds; its file stays.
    pub(crate) fn release(&self, pool: &LivePool, held: &Held) -> Result<(), Refusal> {
        let Some(container_id) = &held.container_id else {
            return Ok(());
        };
        let config = configuration::of_release(&pool.pool)?;
        self.chains
            .del(&config, container_id)
            .map_err(Refusal::from)
    }
}

/// The gateway that Docker has of a pool, or else the chain's.
fn gateway_of(pool: &LivePool) -> IpAddr {
    match pool.pool.is_given {
        true => pool.gateway().unwrap_or(pool.pool.gateway),
        false => pool.pool.gateway,
    }
}

fn answer_of(pool: &LivePool, ip: IpAddr) -> String {
    json(&wire::Address {
        address: format!("{ip}/{}", pool.pool.subnet.prefix_len()),
        data: wire::Options::new(),
    })
}

fn of_pool(id: &str, why: &Refusal) -> Refusal {
    impossible(format!("pool {id}: {why}"))
}
