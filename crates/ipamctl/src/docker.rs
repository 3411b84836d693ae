//! Docker's side of a node: the attachments that `docker-ipam-delegated` has made for
//! Docker, and whether Docker still has each of them.

use std::collections::HashMap;
use std::path::Path;

use conflist::{Problem, readable};
use docker_ipam_delegated::engine::{Engine, User};
use docker_ipam_delegated::tools::{Remembered, is_attachment, remembered};

use crate::arguments::DockerPlaces;
use crate::names::Names;

/// The attachments of `docker-ipam-delegated`, and what Docker says of them.
#[derive(Debug, Default)]
pub(crate) struct Docker {
    /// By container ID, which the daemon has chosen.
    holders: HashMap<String, Holder>,
    /// What holds for attachments of the daemon's that are not in its memory.
    others: Option<Holder>,
}

/// An attachment that was made for Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Docker's names of the network and the container, as far as Docker says them.
    pub(crate) names: Names,
    pub(crate) standing: Standing,
    /// Docker's IDs, if it is an endpoint of the network driver.
    pub(crate) endpoint: Option<EndpointId>,
}

/// Docker's IDs of an endpoint and its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointId {
    pub(crate) network: String,
    pub(crate) endpoint: String,
}

/// Whether Docker has an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A container has it, or the network itself.
    InUse,
    /// No container and no network of Docker's has it.
    Lost,
    /// The daemon's memory doesn't have it: Docker can't release it.
    Forgotten,
    /// Nobody can say, for this reason.
    Unknown(String),
}

impl Docker {
    /// Compares what the daemon remembers with what Docker says.
    pub(crate) fn read(memory: &Memory, places: &DockerPlaces) -> Self {
        let Memory::Read(memory) = memory else {
            let standing = Standing::Unknown(memory.reason(&places.docker_state_dir));
            return Self {
                others: Some(Holder::nameless(standing)),
                ..Self::default()
            };
        };
        let mut it = Self::default();
        // A file that can't be read may have what is missing.
        if memory.problems.is_empty() {
            it.others = Some(Holder::nameless(Standing::Forgotten));
        }
        if !memory.addresses.is_empty() || !memory.endpoints.is_empty() {
            match Engine::ask(&places.docker_socket) {
                Ok(engine) => it.compare(memory, &engine),
                Err(error) => it.nobody_knows(memory, &format!("{error:#}")),
            }
        }
        it
    }

    /// The attachment of this container ID, if it was made for Docker.
    pub(crate) fn holder(&self, container: &str) -> Option<&Holder> {
        let of_others = || self.others.as_ref().filter(|_| is_attachment(container));
        self.holders.get(container).or_else(of_others)
    }

    fn compare(&mut self, memory: &Remembered, engine: &Engine) {
        for address in &memory.addresses {
            let pool = memory.pools.iter().find(|it| it.id == address.pool);
            let user = match (pool, address.ip) {
                (Some(pool), Some(ip)) => engine.user_of(pool.subnet, ip),
                _ => None,
            };
            let holder = Holder::of(user, None);
            self.holders
                .insert(address.container_id.to_string(), holder);
        }
        for it in &memory.endpoints {
            let id = EndpointId {
                network: it.network.clone(),
                endpoint: it.id.clone(),
            };
            let holder = Holder::of(engine.user_of_endpoint(&it.id), Some(id));
            self.holders.insert(it.container_id.clone(), holder);
        }
    }

    fn nobody_knows(&mut self, memory: &Remembered, reason: &str) {
        let addresses = memory.addresses.iter().map(|it| it.container_id.as_str());
        let endpoints = memory.endpoints.iter().map(|it| it.container_id.as_str());
        for id in addresses.chain(endpoints) {
            let standing = Standing::Unknown(reason.to_owned());
            self.holders
                .insert(id.to_owned(), Holder::nameless(standing));
        }
    }
}

impl Holder {
    fn nameless(standing: Standing) -> Self {
        Self {
            names: Names::default(),
            standing,
            endpoint: None,
        }
    }

    fn of(user: Option<User>, endpoint: Option<EndpointId>) -> Self {
        let standing = match user {
            Some(_) => Standing::InUse,
            None => Standing::Lost,
        };
        Self {
            names: user.map_or_else(Names::default, |it| {
                Names::of_docker(&it.network, it.container.as_deref().unwrap_or_default())
            }),
            standing,
            endpoint,
        }
    }

    /// True if Docker won't release it.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.standing, Standing::Lost | Standing::Forgotten)
    }
}

/// The memory of `docker-ipam-delegated` on this node.
#[derive(Debug)]
pub(crate) enum Memory {
    /// It was read.
    Read(Remembered),
    /// There is none.
    Missing,
    /// It can't be read, for this reason.
    Unreadable(String),
}

impl Memory {
    /// Reads it.
    pub(crate) fn read(places: &DockerPlaces) -> Self {
        match remembered(&places.docker_state_dir) {
            Ok(Some(memory)) => Self::Read(memory),
            Ok(None) => Self::Missing,
            Err(error) => Self::Unreadable(readable(&error)),
        }
    }

    /// What was read of it.
    pub(crate) fn remembered(&self) -> Option<&Remembered> {
        match self {
            Self::Read(memory) => Some(memory),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }

    /// Files and folders that can't be read.
    pub(crate) fn problems(&self, state_dir: &Path) -> Vec<Problem> {
        match self {
            Self::Missing => Vec::new(),
            Self::Unreadable(reason) => vec![Problem {
                path: state_dir.to_owned(),
                reason: reason.clone(),
            }],
            Self::Read(memory) => {
                let each = |(path, reason): &(std::path::PathBuf, String)| Problem {
                    path: path.clone(),
                    reason: reason.clone(),
                };
                memory.problems.iter().map(each).collect()
            }
        }
    }

    fn reason(&self, state_dir: &Path) -> String {
        let state_dir = state_dir.display();
        match self {
            Self::Unreadable(reason) => format!("{state_dir}: {reason}"),
            _ => format!("{state_dir} has no memory of docker-ipam-delegated: --docker-state-dir"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_AN_ADDRESS: &str = "docker-18f0a1b2c3d4e5f6-0000002a";

    fn places(state: &Path) -> DockerPlaces {
        DockerPlaces {
            docker_state_dir: state.to_owned(),
            docker_socket: state.join("none.sock"),
            docker_plugin: state.join("none.sock"),
        }
    }

    #[test]
    fn without_a_memory_nobody_can_say_whether_docker_has_an_attachment() {
        let state = tempfile::tempdir().unwrap();
        let places = places(state.path());
        let docker = Docker::read(&Memory::read(&places), &places);
        let holder = docker.holder(OF_AN_ADDRESS).unwrap();
        assert!(!holder.is_lost());
        assert!(
            matches!(&holder.standing, Standing::Unknown(why) if why.contains("--docker-state-dir"))
        );
        assert!(docker.holder("docker-registry").is_none());
    }

    #[test]
    fn an_attachment_that_the_memory_lacks_is_forgotten() {
        let places = places(Path::new("/nowhere"));
        let docker = Docker::read(&Memory::Read(Remembered::default()), &places);
        let holder = docker.holder(OF_AN_ADDRESS).unwrap();
        assert_eq!(holder.standing, Standing::Forgotten);
        assert!(holder.is_lost());
    }

    #[test]
    fn an_attachment_that_docker_cant_be_asked_for_is_not_lost() {
        let mut memory = Remembered::default();
        memory
            .addresses
            .push(docker_ipam_delegated::tools::RememberedAddress {
                container_id: OF_AN_ADDRESS.parse().unwrap(),
                pool: "p".to_owned(),
                ip: None,
            });
        let places = places(Path::new("/nowhere"));
        let docker = Docker::read(&Memory::Read(memory), &places);
        let holder = docker.holder(OF_AN_ADDRESS).unwrap();
        assert!(matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock")));
    }
}
