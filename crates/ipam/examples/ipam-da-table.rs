//! An allocator: it keeps the reservations of all networks and pools in one table, the
//! file `table.json` in `ipam.tableDir`.

use std::collections::HashSet;
use std::fs::File;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use cni::code;
use cni::{About, Attachment, Call, Error, IpConfig, NetworkName, Plugin, Reply};
use ipam::{Completion, Overflow, Pool, Pools};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use state_files::StateFolder;

const FILE: &str = "table.json";

struct IpamDaTable;

impl Plugin for IpamDaTable {
    fn about(&self) -> About {
        About {
            name: "ipam-da-table",
            version: "1.0.0",
            summary: "gives one address from each pool, by a table in one file",
        }
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let completion = Completion::read(&call.config, &call.config.ipam()?)?;
        let pools = Pools::of_call(&call.config)?.read(&call.config)?;
        if pools.is_empty() {
            return Err(ipam::without_pools());
        }
        let mut table = Table::open(call)?;
        let ips = ipam::all_or_nothing(
            &mut table,
            &pools,
            |table, pools| table.reserve(pools, attachment),
            |table, _| {
                table.reservations.pop();
                Ok(())
            },
        )?;
        table.save()?;
        Ok(Reply::Result(completion.with_addresses(ips)))
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        Table::open(call)?.keep(|row| row.attachment != *attachment)
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let prev_result = call.config.prev_result()?;
        let prev_result = prev_result.ok_or_else(|| Error::config("prevResult is missing"))?;
        let (pools, table) = (
            Pools::of_call(&call.config)?.read(&call.config)?,
            Table::open(call)?,
        );
        for ip in prev_result.ips.iter().map(IpConfig::ip) {
            let mut pools = pools.iter().flat_map(Overflow::all);
            let pool = pools.find(|pool| pool.ranges.contains(ip));
            let holds = |pool| table.held(pool, attachment).any(|row| row.ip == ip);
            if !pool.is_none_or(holds) {
                let why = format!("{ip} is not reserved to {attachment}");
                return Err(Error::new(code::NOT_RESERVED, why));
            }
        }
        Ok(Reply::Nothing)
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let valid = call.config.valid_attachments()?;
        Table::open(call)?.keep(|row| valid.contains(&row.attachment))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let try_out = || {
            Pools::of_call(&call.config)?.read(&call.config)?;
            // Fails if the disk is full or read-only.
            Table::open(call)?.save()
        };
        let code = code::UNAVAILABLE;
        try_out().map_err(|error| Error { code, ..error })?;
        Ok(Reply::Nothing)
    }
}

/// An address of a pool, and the attachment that has it.
#[derive(Serialize, Deserialize)]
struct Reservation {
    pool: NetworkName,
    ip: IpAddr,
    network: NetworkName,
    #[serde(flatten)]
    attachment: Attachment,
}

/// The table, locked until it is dropped.
struct Table {
    /// The network of the call.
    network: NetworkName,
    /// The reservations of all networks, the newest one last.
    reservations: Vec<Reservation>,
    folder: StateFolder,
    _lock: File,
}

impl Table {
    fn open(call: &Call<'_>) -> Result<Self, Error> {
        let path: Option<PathBuf> = call.config.ipam()?.read("ipam", "tableDir")?;
        let path = path.unwrap_or_else(|| "/var/lib/cni/ipam-da-table".into());
        if !path.is_absolute() {
            return Err(Error::config(format!(
                "ipam.tableDir: {path:?} is not absolute"
            )));
        }
        let failed = |error| Error::io(path.display(), error);
        let folder = StateFolder::create(&path).map_err(failed)?;
        let lock = folder.create_file("lock", OFlags::RDWR).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let reservations = match folder.read(FILE) {
            Ok(json) => serde_json::from_slice(&json).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let network = call.config.name().clone();
        Ok(Self {
            network,
            reservations,
            folder,
            _lock: lock,
        })
    }

    /// Replaces the file in one step: a killed call leaves the old one or the new one.
    fn save(&self) -> Result<(), Error> {
        let json = serde_json::to_vec(&self.reservations).expect("a table is JSON");
        let saved = self.folder.replace(FILE, &json);
        saved.map_err(|error| Error::io(self.folder.path_of(FILE).display(), error))
    }

    /// Releases the reservations of this network of which `is_kept` is false.
    fn keep(mut self, is_kept: impl Fn(&Reservation) -> bool) -> Result<Reply, Error> {
        let before = self.reservations.len();
        self.reservations
            .retain(|row| row.network != self.network || is_kept(row));
        if self.reservations.len() < before {
            self.save()?;
        }
        Ok(Reply::Nothing)
    }

    /// The reservations in a pool, of all networks.
    fn of_pool<'a>(&'a self, pool: &'a Pool) -> impl DoubleEndedIterator<Item = &'a Reservation> {
        let name = pool.directory(&self.network);
        let all = self.reservations.iter();
        all.filter(move |row| row.pool == *name && pool.ranges.contains(row.ip))
    }

    /// The reservations in a pool that the attachment has on this network.
    fn held<'a>(
        &'a self,
        pool: &'a Pool,
        attachment: &'a Attachment,
    ) -> impl Iterator<Item = &'a Reservation> {
        self.of_pool(pool)
            .filter(|row| row.network == self.network && row.attachment == *attachment)
    }

    /// The pool's next free address, round robin.
    fn next_free(&self, pool: &Pool) -> Option<IpAddr> {
        let newest = self.of_pool(pool).next_back().map(|row| row.ip);
        let reserved: HashSet<IpAddr> = self.of_pool(pool).map(|row| row.ip).collect();
        let candidates = pool.ranges.rotation(newest);
        let mut addresses = candidates
            .iter()
            .flat_map(|candidate| candidate.addresses.iter());
        addresses.find(|ip| !reserved.contains(ip))
    }

    fn full(&self, pools: &Overflow) -> Error {
        let full = pools.all().iter().map(|pool| {
            let (name, count) = (pool.directory(&self.network), self.of_pool(pool).count());
            format!(
                "pool {name}: {count} addresses of {} are reserved",
                pool.ranges
            )
        });
        Error::new(code::TRY_AGAIN_LATER, full.collect::<Vec<_>>().join("; "))
    }

    /// Reserves an address of the first pool that has one.
    fn reserve<'p>(
        &mut self,
        pools: &'p Overflow,
        attachment: &Attachment,
    ) -> Result<(&'p Pool, IpConfig), Error> {
        for pool in pools.tried() {
            if let Some(ip) = self.reserve_of(pool, attachment)? {
                return Ok((pool, ip));
            }
        }
        Err(self.full(pools))
    }

    fn reserve_of(
        &mut self,
        pool: &Pool,
        attachment: &Attachment,
    ) -> Result<Option<IpConfig>, Error> {
        if let Some(held) = self.held(pool, attachment).next() {
            let why = format!("{attachment} has {} already", held.ip);
            return Err(Error::new(code::ALREADY_ALLOCATED, why));
        }
        let ip = match pool.requested {
            Some(ip) if self.of_pool(pool).any(|row| row.ip == ip) => {
                let why = format!("{ip} is reserved already");
                return Err(Error::new(code::REQUESTED_TAKEN, why));
            }
            Some(ip) => Some(ip),
            None => self.next_free(pool),
        };
        let Some(ip) = ip else {
            return Ok(None);
        };
        let range = pool.ranges.range_of(ip).expect("it is one of the pool's");
        self.reservations.push(Reservation {
            pool: pool.directory(&self.network).clone(),
            ip,
            network: self.network.clone(),
            attachment: attachment.clone(),
        });
        let prefix_len = range.subnet().prefix_len();
        Ok(Some(IpConfig::new(ip, prefix_len, range.gateway())))
    }
}

fn main() -> ExitCode {
    plugin::main(&IpamDaTable)
}
