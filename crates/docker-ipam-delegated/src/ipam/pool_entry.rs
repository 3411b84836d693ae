//! Entry of a pool: its references, and who holds which of its addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::ipam::held::{Held, Holder, LivePool, Standing};

/// A pool with its references and its held addresses.
pub(crate) struct Entry {
    pub(crate) pool: Arc<LivePool>,
    pub(crate) references: Vec<Reference>,
    /// The files of the last references of a pool that has ended. They stay as long as an address
    /// is held, or a call has the pool: they have the configuration.
    pub(crate) ended: Vec<String>,
    /// The uses of each address; without an address if it is not known which one is held.
    pub(crate) uses: HashMap<Option<IpAddr>, Vec<Use>>,
    /// The gateways that Docker has, by the names of their files: the oldest is the first.
    pub(crate) gateways: BTreeMap<String, IpAddr>,
}

/// One `RequestPool` without its `ReleasePool`.
pub(crate) struct Reference {
    /// The name of its file.
    pub(crate) file: String,
    /// False if Docker may not have had the answer, since an earlier daemon was killed.
    pub(crate) is_sure: bool,
    pub(crate) since: Instant,
}

/// A use of an address.
pub(crate) struct Use {
    pub(crate) holder: Holder,
    pub(crate) standing: Standing,
    pub(crate) since: Instant,
}

impl Use {
    /// True if Docker has it, as far as is known.
    pub(crate) fn is_given(&self) -> bool {
        self.standing == Standing::Given
    }
}

impl Entry {
    pub(crate) fn new(pool: Arc<LivePool>) -> Self {
        Self {
            pool,
            references: Vec::new(),
            ended: Vec::new(),
            uses: HashMap::new(),
            gateways: BTreeMap::new(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.ended.is_empty()
    }

    pub(crate) fn held(&self, ip: Option<IpAddr>, holder: &Holder) -> Held {
        Held {
            pool: Arc::clone(&self.pool),
            ip,
            holder: holder.clone(),
        }
    }

    pub(crate) fn put(&mut self, ip: Option<IpAddr>, holder: Holder, standing: Standing) {
        if let (Holder::Gateway(file), Some(ip)) = (&holder, ip) {
            self.gateways.insert(file.clone(), ip);
        }
        let since = Instant::now();
        self.uses.entry(ip).or_default().push(Use {
            holder,
            standing,
            since,
        });
    }

    pub(crate) fn remove(&mut self, ip: Option<IpAddr>, holder: &Holder) {
        if let Holder::Gateway(file) = holder {
            self.gateways.remove(file);
        }
        if let Some(uses) = self.uses.get_mut(&ip) {
            uses.retain(|one| one.holder != *holder);
            if uses.is_empty() {
                self.uses.remove(&ip);
            }
        }
    }

    /// All uses with their addresses.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (Option<IpAddr>, &Use)> {
        let uses = self.uses.iter();
        uses.flat_map(|(ip, uses)| uses.iter().map(|one| (*ip, one)))
    }

    /// Begins the release of all that has this standing.
    pub(crate) fn begin_releases(&mut self, standing: Standing) -> Vec<Held> {
        let mut all = Vec::new();
        for (ip, uses) in &mut self.uses {
            for one in uses.iter_mut().filter(|one| one.standing == standing) {
                one.standing = Standing::Releasing;
                all.push(Held {
                    pool: Arc::clone(&self.pool),
                    ip: *ip,
                    holder: one.holder.clone(),
                });
            }
        }
        all
    }
}
