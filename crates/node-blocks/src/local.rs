//! The file of what a node holds of a pool: `<etcd.stateDir>/blocks/<pool>.json`.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{BlockOwner, Cluster};
use cni::{Error, Object, code};
use etcd_settings::{Endpoint, Settings};
use ipam::IpNet;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use state_files::StateFolder;

/// Version of the file.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Local {
    version: u32,
    /// Whose blocks these are.
    node: String,
    prefix: String,
    pool: String,
    /// Where it is written which addresses of these blocks are reserved.
    #[serde(default)]
    data_dir: Option<PathBuf>,
    /// The endpoints of the etcd that the blocks were compared with.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// The pool's definition, as etcd has it.
    pub definition: Object,
    /// The blocks that are this node's.
    pub blocks: Vec<Block>,
    /// A block that is being claimed: etcd may have given it to this node.
    #[serde(default)]
    pub claiming: Option<Block>,
    /// The incarnation of the node in which the blocks were compared with etcd's.
    #[serde(default)]
    pub verified_in: Option<String>,
    /// The last change of the definition since which no block in etcd has another length.
    #[serde(default)]
    pub one_length_since: Option<i64>,
    /// The last time that etcd was asked for a block in vain.
    #[serde(default)]
    pub failed: Option<Moment>,
}

/// A block of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its addresses.
    #[serde(with = "as_text")]
    pub cidr: IpNet,
    /// The value in etcd.
    pub owner: BlockOwner,
    /// The time since which GC has found it empty.
    #[serde(default)]
    pub empty_since: Option<Moment>,
    /// The time since which it isn't used any more, since it is given back.
    #[serde(default)]
    pub leaving_since: Option<Moment>,
}

/// A time that no clock's change touches: a boot, and the seconds since then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The boot; `None` if it isn't known.
    pub boot: Option<String>,
    /// Seconds since the boot.
    pub seconds: u64,
}

impl Moment {
    /// The time now, in this boot.
    pub fn now(boot: Option<&str>) -> Self {
        Self {
            boot: boot.map(str::to_owned),
            seconds: u64::try_from(clock_gettime(ClockId::Boottime).tv_sec).unwrap_or_default(),
        }
    }

    /// The time that has passed until `now`; `None` if there was a boot between.
    pub fn until(&self, now: &Self) -> Option<Duration> {
        let passed = now.seconds.checked_sub(self.seconds)?;
        (self.boot == now.boot).then(|| Duration::from_secs(passed))
    }
}

/// The folder of the files.
#[derive(Debug)]
pub struct Files {
    folder: StateFolder,
    /// `ipam.dataDir`.
    data_dir: PathBuf,
}

impl Files {
    /// Opens the folder; makes it if it is missing.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open(cluster: &Cluster, data_dir: PathBuf) -> Result<Self, Error> {
        let path = cluster.settings.state_dir.join("blocks");
        let folder = StateFolder::create(&path).map_err(|e| Error::io(path.display(), e))?;
        Ok(Self { folder, data_dir })
    }

    /// The files of all pools that the node has blocks of, each with the folder of its
    /// reservations.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], and code 5 for a folder that can't be read.
    pub fn all(cluster: &Cluster) -> Result<Vec<(Self, Local)>, Error> {
        let path = cluster.settings.state_dir.join("blocks");
        let failed = |error: io::Error| Error::io(path.display(), error);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(pool) = name.to_str().and_then(|it| it.strip_suffix(".json")) else {
                continue;
            };
            // The file says where its reservations are.
            let file = path.join(&name);
            let content = fs::read(&file).map_err(|e| Error::io(file.display(), e))?;
            let local: Local = serde_json::from_slice(&content)
                .map_err(|error| Error::io(file.display(), error))?;
            let data_dir = local
                .data_dir
                .ok_or_else(|| Error::io(file.display(), "it doesn't name its dataDir"))?;
            let files = Self::open(cluster, data_dir)?;
            if let Some(local) = files.read(cluster, pool)? {
                all.push((files, local));
            }
        }
        Ok(all)
    }

    /// `ipam.dataDir`.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Runs `f` while no other process changes files; `None` if another one does so for
    /// longer than this.
    ///
    /// # Errors
    ///
    /// Those of `f`; code 5, naming the folder.
    pub fn alone<T>(
        &self,
        at_most: Duration,
        f: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.folder.with_lock(at_most, || Ok(f())) {
            Ok(done) => done.map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Error::io(self.folder.path_of("").display(), error)),
        }
    }

    /// Reads the file of a pool; `None` if the node has nothing of it.
    ///
    /// # Errors
    ///
    /// Code 5 for a file that can't be read; code 7 for one of another node or prefix, whose
    /// blocks can't be used, and for one with another `dataDir`: two networks would give the
    /// same addresses.
    pub fn read(&self, cluster: &Cluster, pool: &str) -> Result<Option<Local>, Error> {
        let Some(local) = self.read_of_any_folder(cluster, pool)? else {
            return Ok(None);
        };
        let data_dir = local.data_dir();
        if data_dir != self.data_dir {
            return Err(Error::config(format!(
                "ipam.dataDir: {}: addresses of this node's blocks of pool {pool} are reserved in {}, by {}: all networks of a pool need one dataDir",
                self.data_dir.display(),
                data_dir.display(),
                self.folder.path_of(&file(pool)).display()
            )));
        }
        Ok(Some(local))
    }

    /// As [`Self::read`], of a network with another `dataDir`, too: what is reserved is told by
    /// [`Local::data_dir`].
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_of_any_folder(
        &self,
        cluster: &Cluster,
        pool: &str,
    ) -> Result<Option<Local>, Error> {
        let name = file(pool);
        let failed = |why: &dyn Display| Error::io(self.folder.path_of(&name).display(), why);
        let bytes = match self.folder.read(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| failed(&error))?,
        };
        let mut local: Local = serde_json::from_slice(&bytes)
            .map_err(|error| failed(&format_args!("it is no list of blocks: {error}")))?;
        if local.version != VERSION {
            let version = local.version;
            return Err(failed(&format_args!(
                "it is of version {version}, of a later release than this"
            )));
        }
        let ours = (cluster.node.as_str(), cluster.settings.prefix.as_str());
        if (local.node.as_str(), local.prefix.as_str()) != ours {
            return Err(Error::new(
                code::INVALID_CONFIG,
                format!(
                    "{} has blocks of node {:?} below {:?}, but ipam.node is {:?} and ipam.etcd.prefix {:?}",
                    self.folder.path_of(&name).display(),
                    local.node,
                    local.prefix,
                    ours.0,
                    ours.1
                ),
            ));
        }
        local.data_dir.get_or_insert_with(|| self.data_dir.clone());
        Ok(Some(local))
    }

    /// The pools that there are files of.
    ///
    /// # Errors
    ///
    /// Code 5, naming the folder.
    pub fn pools(&self) -> Result<Vec<String>, Error> {
        let path = self.folder.path_of("");
        let failed = |error: io::Error| Error::io(path.display(), error);
        let mut pools = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let pool = name.to_str().and_then(|it| it.strip_suffix(".json"));
            pools.extend(pool.map(str::to_owned));
        }
        pools.sort_unstable();
        Ok(pools)
    }

    /// Writes the file of a pool, in one step, on the disk: a claim that a power failure
    /// takes out of it would be nobody's until GC.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path; the old file then stays.
    pub fn write(&self, local: &Local) -> Result<(), Error> {
        let name = file(&local.pool);
        let json = serde_json::to_vec(local).expect("texts are JSON");
        let written = self.folder.replace_durably(&name, &json);
        written.map_err(|error| Error::io(self.folder.path_of(&name).display(), error))
    }
}

fn file(pool: &str) -> String {
    format!("{pool}.json")
}

impl Local {
    /// A node that has nothing of a pool yet.
    pub fn new(cluster: &Cluster, files: &Files, pool: &str, definition: Object) -> Self {
        Self {
            version: VERSION,
            node: cluster.node.clone(),
            prefix: cluster.settings.prefix.clone(),
            pool: pool.to_owned(),
            data_dir: Some(files.data_dir.clone()),
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

    /// True if the blocks were compared with an etcd that has one of these endpoints, too.
    pub fn is_of(&self, settings: &Settings) -> bool {
        let mut urls = settings.endpoints.iter().map(Endpoint::url);
        urls.any(|url| self.endpoints.iter().any(|it| it == url))
    }

    /// Notes that the blocks were compared in this incarnation.
    pub fn set_verified(&mut self, settings: &Settings, incarnation: &str) {
        self.verified_in = Some(incarnation.to_owned());
        let urls = settings.endpoints.iter().map(Endpoint::url);
        self.endpoints = urls.map(str::to_owned).collect();
    }

    /// Where it is written which addresses of these blocks are reserved.
    pub fn data_dir(&self) -> &Path {
        self.data_dir.as_deref().unwrap_or(Path::new(""))
    }

    /// Takes a block into use again that was put aside: the one with these addresses, or any.
    /// False if there is none.
    pub fn use_again(&mut self, wanted: Option<IpNet>) -> bool {
        let is_wanted = |it: &&mut Block| {
            it.leaving_since.is_some()
                && wanted.is_none_or(|block| it.cidr.contains(&block) || block.contains(&it.cidr))
        };
        let Some(block) = self.blocks.iter_mut().find(is_wanted) else {
            return false;
        };
        (block.empty_since, block.leaving_since) = (None, None);
        true
    }

    /// The blocks that addresses are given from.
    pub fn used(&self) -> impl Iterator<Item = IpNet> {
        let used = self.blocks.iter().filter(|it| it.leaving_since.is_none());
        used.map(|it| it.cidr)
    }
}

impl Block {
    /// A block that is used from now on.
    pub fn new(cidr: IpNet, owner: BlockOwner) -> Self {
        Self {
            cidr,
            owner,
            empty_since: None,
            leaving_since: None,
        }
    }
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
