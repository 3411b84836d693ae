//! What the node's files say of a pool: whether its blocks are enough for an ADD.

use std::net::IpAddr;
use std::time::Duration;

use cluster::{BootFile, Cluster, Definition, block_of};
use cni::{Call, Error, Object};
use ipam::IpNet;
use ipam_da_host_local::Folders;
use state_files::boot_id;

use crate::{Asked, Files, Local, Moment};

/// Time in which etcd isn't asked again for a block that isn't needed yet.
const PAUSE: Duration = Duration::from_secs(10);

/// Most free addresses below which a block is claimed ahead of need.
const MOST_LOW: u128 = 64;

/// What a call needs of the node.
#[derive(Debug)]
pub struct Node {
    /// The cluster, and the node's name.
    pub cluster: Cluster,
    /// The files of the node's blocks.
    pub files: Files,
    /// The boot; `None` if it isn't known.
    pub boot: Option<String>,
    /// The incarnation of the node's registration in this boot; `None` before the first one.
    pub incarnation: Option<String>,
}

/// What the node's file has for an ADD.
#[derive(Debug)]
pub enum Held {
    /// Room: the entry for the allocator.
    Enough(Object),
    /// Room, but a further block is needed soon.
    Low {
        /// The file.
        local: Box<Local>,
        /// The pool.
        definition: Box<Definition>,
    },
    /// Nothing that can be used without etcd.
    TooLittle,
}

/// What a pool needs on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// A further block, soon.
    Soon,
    /// A block, or this one, at once.
    Now(Option<IpNet>),
}

impl Node {
    /// Reads the configuration of a call, and opens the files.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value; code 5, naming the folder.
    pub fn of(call: &Call<'_>) -> Result<Self, Error> {
        let ipam = call.config.ipam()?;
        let cluster = Cluster::read(&ipam)?;
        let registration = BootFile::open(&cluster)?.read(call.environment)?;
        Ok(Self {
            files: Files::open(&cluster, Folders::read(&ipam)?.data_dir)?,
            boot: boot_id(call.environment),
            incarnation: registration.map(|it| it.incarnation),
            cluster,
        })
    }

    /// A pool's definition, as the node's file has it.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value.
    pub fn definition(&self, local: &Local, pool: &str) -> Result<Definition, Error> {
        let json = serde_json::to_vec(&local.definition).expect("an object is JSON");
        Definition::parse(&self.cluster.keys.pool(pool), &json)
            .map_err(|why| Error::config(why.to_string()))
    }

    /// True if the blocks were compared with this etcd's since the node registered in this
    /// boot: before that, the disk may be an old one, or a copy.
    pub fn is_verified(&self, local: &Local) -> bool {
        self.incarnation.is_some()
            && local.verified_in == self.incarnation
            && local.is_of(&self.cluster.settings)
    }

    /// What the node has of a pool, without asking etcd.
    ///
    /// # Errors
    ///
    /// Code 5 for a file or a directory that can't be read; code 7 for one of another node,
    /// and for a requested address that isn't the pool's.
    pub fn held(&self, pool: &Asked) -> Result<Held, Error> {
        let Some(local) = self.files.read(&self.cluster, &pool.name)? else {
            return Ok(Held::TooLittle);
        };
        if !self.is_verified(&local) {
            return Ok(Held::TooLittle);
        }
        let definition = self.definition(&local, &pool.name)?;
        Ok(match self.need(pool, &local, &definition)? {
            Need::Nothing => Held::Enough(pool.with_blocks(&definition, local.used())),
            Need::Soon => Held::Low {
                local: local.into(),
                definition: definition.into(),
            },
            Need::Now(_) => Held::TooLittle,
        })
    }

    /// What an ADD needs, by the allocator's files.
    ///
    /// # Errors
    ///
    /// Code 5 if the allocator's directory can't be read; code 7 for a requested address that
    /// isn't the pool's.
    pub fn need(
        &self,
        pool: &Asked,
        local: &Local,
        definition: &Definition,
    ) -> Result<Need, Error> {
        if let Some(ip) = pool.requested {
            let block = requested_block(pool, ip, definition)?;
            // A block may be of a length that the definition had before.
            let is_ours = local
                .used()
                .any(|it| it.contains(&block) || it.contains(&ip));
            return Ok(if is_ours {
                Need::Nothing
            } else {
                Need::Now(Some(block))
            });
        }
        let free = pool.free(definition, local, self.files.data_dir())?;
        if free == 0 {
            return Ok(Need::Now(None));
        }
        if free >= low(definition) {
            return Ok(Need::Nothing);
        }
        let now = Moment::now(self.boot.as_deref());
        let failed = local.failed.as_ref().and_then(|it| it.until(&now));
        Ok(match failed {
            Some(passed) if passed < PAUSE => Need::Nothing,
            _ => Need::Soon,
        })
    }
}

/// The block with a requested address.
fn requested_block(pool: &Asked, ip: IpAddr, definition: &Definition) -> Result<IpNet, Error> {
    let ranges = &definition.pool.ranges;
    let ip = ranges.in_family(ip);
    let block = ranges
        .contains(ip)
        .then(|| block_of(ip, definition.block.unwrap_or_default()));
    block.flatten().ok_or_else(|| {
        Error::config(format!(
            "requested-ip: {ip} is not in pool {} ({ranges})",
            pool.name
        ))
    })
}

/// Number of free addresses below which the blocks are nearly full: a quarter of a block.
pub fn low(definition: &Definition) -> u128 {
    let longest = match definition.pool.ranges.ranges()[0].subnet() {
        IpNet::V4(_) => 32,
        IpNet::V6(_) => 128,
    };
    let bits = u32::from(longest - definition.block.unwrap_or(longest).min(longest));
    let size = 1u128.checked_shl(bits).unwrap_or(u128::MAX);
    (size / 4).clamp(1, MOST_LOW)
}
