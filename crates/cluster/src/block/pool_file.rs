//! The file with the blocks that this node holds of a pool: `<stateDir>/blocks/<pool>.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::{Error, Object, code};
use ipam::IpNet;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::node::state_file::StateFile;
use crate::value::BlockOwner;
use crate::{Definition, Engine, Key, Node};

/// Version of the file.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolFile {
    version: u32,
    /// The node that has these blocks.
    node: String,
    prefix: String,
    pool: String,
    /// Directory of the reservations in these blocks.
    data_dir: PathBuf,
    /// Addresses of the engine with which the blocks were compared.
    pub(crate) endpoints: Vec<String>,
    /// The pool's definition in the engine.
    pub definition: Object,
    /// The blocks that this node has.
    pub blocks: Vec<Block>,
    /// A block that is being claimed. The engine may already have it as this node's.
    pub(crate) claiming: Option<Block>,
    /// The incarnation of the node when the blocks were last compared with the engine's.
    pub(crate) verified_in: Option<String>,
    /// Revision of the definition from which on all blocks in the engine have its length.
    pub(crate) one_length_since: Option<i64>,
    /// Time of the last claim that failed.
    pub(crate) failed: Option<BootTime>,
}

/// A block of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its addresses.
    #[serde(with = "as_text")]
    pub cidr: IpNet,
    /// The value in the engine.
    pub owner: BlockOwner,
    /// Since when GC has found the block empty.
    pub(crate) empty_since: Option<BootTime>,
    /// Since when the block is put aside: no address is given from it, and it will be given back.
    pub(crate) leaving_since: Option<BootTime>,
}

/// A time without the clock: a boot, and the seconds since that boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootTime {
    /// The boot's ID; `None` if it can't be read.
    boot: Option<String>,
    /// Seconds since the boot.
    seconds: u64,
}

impl BootTime {
    /// The time now, in this boot.
    pub(crate) fn now(boot: Option<&str>) -> Self {
        Self {
            boot: boot.map(str::to_owned),
            seconds: u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).unwrap_or_default(),
        }
    }

    /// The duration until `now`; `None` if the machine booted between.
    pub(crate) fn until(&self, now: &Self) -> Option<Duration> {
        let passed = now.seconds.checked_sub(self.seconds)?;
        (self.boot == now.boot).then(|| Duration::from_secs(passed))
    }
}

/// The files of a node's blocks.
#[derive(Debug)]
pub struct BlockFiles {
    folder: PathBuf,
    node: Node,
    /// `ipam.dataDir`.
    data_dir: PathBuf,
}

impl BlockFiles {
    /// Opens the folder; creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open(node: &Node, data_dir: PathBuf) -> Result<Self, Error> {
        let files = Self {
            folder: node.state_dir.join("blocks"),
            node: node.clone(),
            data_dir,
        };
        files.file("")?;
        Ok(files)
    }

    /// True if the node has such files, or if that is unknown.
    pub(crate) fn may_exist(node: &Node) -> bool {
        let folder = fs::metadata(node.state_dir.join("blocks"));
        !matches!(folder, Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// The files of all pools of which the node has blocks.
    ///
    /// # Errors
    ///
    /// Code 5 for a file or a folder that can't be read; code 7 for a file of another node.
    pub fn all(&self) -> Result<Vec<PoolFile>, Error> {
        let read = |pool: String| self.read_of_any_folder(&pool).transpose();
        self.pools()?.into_iter().filter_map(read).collect()
    }

    fn file(&self, pool: &str) -> Result<StateFile, Error> {
        StateFile::open(&self.folder, format!("{pool}.json"))
    }

    /// Runs `f` while no other process changes the files; `None` if another process holds the lock
    /// for longer than `at_most`.
    ///
    /// # Errors
    ///
    /// Those of `f`; code 5, naming the folder.
    pub fn locked<T>(
        &self,
        at_most: Duration,
        f: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.file("")?.locked(at_most, f)
    }

    /// Reads the file of a pool; `None` if the node has no blocks of it.
    ///
    /// # Errors
    ///
    /// As [`Self::read_of_any_folder`]; code 7 for a file with another `dataDir`: two networks
    /// would give the same addresses.
    pub(crate) fn read(&self, pool: &str) -> Result<Option<PoolFile>, Error> {
        let Some(file) = self.read_of_any_folder(pool)? else {
            return Ok(None);
        };
        if file.data_dir() != self.data_dir {
            return Err(Error::config(format!(
                "ipam.dataDir: {}: addresses of this node's blocks of pool {pool} are reserved in {}, by {}: all networks of a pool need one dataDir",
                self.data_dir.display(),
                file.data_dir().display(),
                self.file(pool)?.path()
            )));
        }
        Ok(Some(file))
    }

    /// As [`Self::read`], but accepts a file with another `dataDir`: see [`PoolFile::data_dir`].
    ///
    /// # Errors
    ///
    /// Code 5 for a file that can't be read; code 7 for a file of another node or prefix, whose
    /// blocks can't be used.
    pub(crate) fn read_of_any_folder(&self, pool: &str) -> Result<Option<PoolFile>, Error> {
        let file = self.file(pool)?;
        let Some(bytes) = file.read()? else {
            return Ok(None);
        };
        let content: PoolFile = serde_json::from_slice(&bytes)
            .map_err(|error| file.failed(format_args!("it is no list of blocks: {error}")))?;
        if content.version != VERSION {
            let version = content.version;
            return Err(file.failed(format_args!(
                "it is of version {version}, of a later release than this"
            )));
        }
        let (node, prefix) = (&self.node.name, &self.node.prefix);
        if (&content.node, &content.prefix) != (node, prefix) {
            return Err(Error::new(
                code::INVALID_CONFIG,
                format!(
                    "{} has blocks of node {:?} below {:?}, but ipam.node is {node:?} and the prefix {prefix:?}",
                    file.path(),
                    content.node,
                    content.prefix,
                ),
            ));
        }
        Ok(Some(content))
    }

    /// The pools with a file.
    pub(crate) fn pools(&self) -> Result<Vec<String>, Error> {
        let failed = |error: io::Error| Error::io(self.folder.display(), error);
        let mut pools = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let pool = name.to_str().and_then(|name| name.strip_suffix(".json"));
            pools.extend(pool.map(str::to_owned));
        }
        pools.sort_unstable();
        Ok(pools)
    }

    /// Replaces the file of a pool, and returns after it is on the disk. If a power failure
    /// removed a claim from it, no node would use that block until GC.
    pub(crate) fn write(&self, content: &PoolFile) -> Result<(), Error> {
        let json = serde_json::to_vec(content).expect("texts are JSON");
        self.file(&content.pool)?.replace_durably(&json)
    }
}

impl PoolFile {
    /// A new file for a pool of which the node has no blocks yet.
    pub(crate) fn new(files: &BlockFiles, pool: &str, definition: Object) -> Self {
        Self {
            version: VERSION,
            node: files.node.name.clone(),
            prefix: files.node.prefix.clone(),
            pool: pool.to_owned(),
            data_dir: files.data_dir.clone(),
            endpoints: Vec::new(),
            definition,
            blocks: Vec::new(),
            claiming: None,
            verified_in: None,
            one_length_since: None,
            failed: None,
        }
    }

    /// The pool.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// True if the blocks were compared with an engine that shares an address with this one.
    pub(crate) fn is_of(&self, node: &Node) -> bool {
        node.endpoints
            .iter()
            .any(|url| self.endpoints.contains(url))
    }

    /// Notes that the blocks were compared in this incarnation.
    pub(crate) fn set_verified(&mut self, node: &Node, incarnation: &str) {
        self.verified_in = Some(incarnation.to_owned());
        self.endpoints.clone_from(&node.endpoints);
    }

    /// Directory of the reservations in these blocks.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The pool's definition when the blocks were compared last.
    pub(crate) fn definition(&self, engine: &dyn Engine) -> Result<Definition, Error> {
        let json = serde_json::to_vec(&self.definition).expect("an object is JSON");
        Definition::parse(&engine.path(&Key::Pool(self.pool.clone())), &json)
    }

    /// Uses a block again that was put aside: the wanted one, or any. False if there is none.
    pub(crate) fn use_again(&mut self, wanted: Option<IpNet>) -> bool {
        let is_wanted = |block: &&mut Block| {
            block.leaving_since.is_some() && wanted.is_none_or(|wanted| overlap(block.cidr, wanted))
        };
        let Some(block) = self.blocks.iter_mut().find(is_wanted) else {
            return false;
        };
        (block.empty_since, block.leaving_since) = (None, None);
        true
    }

    /// The blocks from which addresses are given.
    pub(crate) fn used(&self) -> impl Iterator<Item = IpNet> {
        let used = self
            .blocks
            .iter()
            .filter(|block| block.leaving_since.is_none());
        used.map(|block| block.cidr)
    }
}

impl Block {
    /// A block that is used immediately.
    pub(crate) fn new(cidr: IpNet, owner: BlockOwner) -> Self {
        Self {
            cidr,
            owner,
            empty_since: None,
            leaving_since: None,
        }
    }
}

/// True if one of the two blocks contains the other.
pub(crate) fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

/// A block in JSON: `"10.0.0.64/26"`.
mod as_text {
    use ipam::IpNet;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        block: &IpNet,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(block)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<IpNet, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| D::Error::custom(format_args!("{text:?} is no block")))
    }
}
