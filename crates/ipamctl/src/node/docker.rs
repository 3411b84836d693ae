//! Docker's side of a node: the attachments that `docker-ipam-delegated` has made for Docker,
//! and whether Docker still has each of them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use conflist::{Problem, readable};
use docker_ipam_delegated::docker::engine::Engine;
use docker_ipam_delegated::docker::judgement::{Held, Verdict, judge};
use docker_ipam_delegated::state::attachment_id::is_attachment;
use docker_ipam_delegated::state::view::{Remembered, remembered};
use ipam::IpNet;

use crate::arguments::DockerPlaces;
use crate::node::names::Names;

/// The attachments of `docker-ipam-delegated`, and Docker's answer.
#[derive(Debug, Default)]
pub(crate) struct Docker {
    /// The attachments in the daemon's memory, by the container ID that it has chosen.
    remembered: HashMap<String, RememberedAttachment>,
    /// Docker's answer, or the reason why there is none; `None` if Docker wasn't asked.
    answer: Option<Result<Answer, String>>,
    /// The subnets that the daemon remembers, and Docker has no network of.
    lost_subnets: Vec<LostSubnet>,
}

/// An attachment in the daemon's memory.
#[derive(Debug)]
enum RememberedAttachment {
    /// An address, and the subnet of its pool, as far as they are known.
    Address(Option<IpNet>, Option<IpAddr>),
    Endpoint(EndpointId),
}

/// The networks and containers of Docker, and their addresses.
#[derive(Debug)]
struct Answer {
    engine: Engine,
    addresses: BTreeSet<IpAddr>,
}

/// A reference of the daemon's to a subnet that Docker has no network of.
#[derive(Clone, Debug)]
pub(crate) struct LostSubnet {
    pub(crate) subnet: IpNet,
    /// The name of its chain's network.
    pub(crate) network: String,
    /// The daemon's ID of the pool.
    pub(crate) pool: String,
    /// The file of the reference in the daemon's memory.
    pub(crate) file: PathBuf,
    /// The name of the file.
    pub(crate) reference: String,
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
    /// The daemon's memory doesn't have it, and Docker doesn't have its address.
    Forgotten,
    /// It is unknown, for this reason.
    Unknown(String),
}

impl Docker {
    /// Compares what the daemon remembers with Docker's answer.
    pub(crate) fn read(memory: &Memory, places: &DockerPlaces) -> Self {
        let Memory::Read(memory) = memory else {
            return Self {
                answer: Some(Err(memory.reason(&places.docker_state_dir))),
                ..Self::default()
            };
        };
        let answer = Engine::ask(&places.docker_socket).map(Answer::new);
        let lost_subnets = match &answer {
            Ok(answer) => lost_subnets(memory, &answer.engine),
            Err(_) => Vec::new(),
        };
        Self {
            remembered: by_container(memory),
            answer: Some(answer.map_err(|error| format!("{error:#}"))),
            lost_subnets,
        }
    }

    /// The subnets that the daemon remembers, and Docker has no network of, by its whole
    /// answer; none if Docker can't be asked.
    pub(crate) fn lost_subnets(&self) -> &[LostSubnet] {
        &self.lost_subnets
    }

    /// Docker's side of the attachment of this container ID and address, if it was made for
    /// Docker.
    pub(crate) fn holder(&self, container: &str, ip: Option<IpAddr>) -> Option<Holder> {
        let answer = self.answer.as_ref()?;
        let remembered = self.remembered.get(container);
        if remembered.is_none() && !is_attachment(container) {
            return None;
        }
        let Answer { engine, addresses } = match answer {
            Ok(answer) => answer,
            Err(reason) => return Some(Holder::nameless(Standing::Unknown(reason.clone()))),
        };
        let verdict = match (remembered, ip) {
            (Some(RememberedAttachment::Endpoint(id)), _) => {
                let holder = Holder::of(judge(Held::Endpoint(&id.endpoint), engine));
                let endpoint = Some(id.clone());
                return Some(Holder { endpoint, ..holder });
            }
            (Some(RememberedAttachment::Address(Some(subnet), Some(ip))), _) => {
                judge(Held::Address(*subnet, *ip), engine)
            }
            (Some(RememberedAttachment::Address(_, ip)), _) => {
                judge(Held::Attachment(ip.as_slice()), engine)
            }
            (None, Some(ip)) if !addresses.contains(&ip) => {
                return Some(Holder::nameless(Standing::Forgotten));
            }
            (None, ip) => judge(Held::Attachment(ip.as_slice()), engine),
        };
        Some(Holder::of(verdict))
    }
}

impl Answer {
    fn new(engine: Engine) -> Self {
        Self {
            addresses: engine.addresses(),
            engine,
        }
    }
}

fn lost_subnets(memory: &Remembered, engine: &Engine) -> Vec<LostSubnet> {
    let pools = memory.pools.iter();
    let lost = pools.filter(|pool| judge(Held::Pool(pool.subnet), engine) == Verdict::Lost);
    let references = lost.flat_map(|pool| {
        pool.references.iter().map(|reference| LostSubnet {
            subnet: pool.subnet,
            network: pool.network.clone(),
            pool: pool.id.clone(),
            file: pool.file.with_file_name(reference),
            reference: reference.clone(),
        })
    });
    references.collect()
}

fn by_container(memory: &Remembered) -> HashMap<String, RememberedAttachment> {
    let addresses = memory.addresses.iter().map(|address| {
        let pool = memory.pools.iter().find(|pool| pool.id == address.pool);
        let subnet = pool.map(|pool| pool.subnet);
        let held = RememberedAttachment::Address(subnet, address.ip);
        (address.container_id.to_string(), held)
    });
    let endpoints = memory.endpoints.iter().map(|endpoint| {
        let id = EndpointId {
            network: endpoint.network.clone(),
            endpoint: endpoint.id.clone(),
        };
        let held = RememberedAttachment::Endpoint(id);
        (endpoint.container_id.clone(), held)
    });
    addresses.chain(endpoints).collect()
}

impl Holder {
    fn nameless(standing: Standing) -> Self {
        Self {
            names: Names::default(),
            standing,
            endpoint: None,
        }
    }

    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::InUse(user) => Self {
                names: Names::of_docker(&user.network, &user.container.unwrap_or_default()),
                ..Self::nameless(Standing::InUse)
            },
            Verdict::Lost => Self::nameless(Standing::Lost),
            Verdict::Unknown(why) => Self::nameless(Standing::Unknown(why.to_owned())),
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

    /// The memory, if it was read.
    pub(crate) fn remembered(&self) -> Option<&Remembered> {
        match self {
            Self::Read(memory) => Some(memory),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }

    /// Files and folders that can't be read.
    pub(crate) fn problems(&self, state_dir: &Path) -> Vec<Problem> {
        let problems: &[(PathBuf, String)] = match self {
            Self::Missing => &[],
            Self::Unreadable(reason) => &[(state_dir.to_owned(), reason.clone())],
            Self::Read(memory) => &memory.problems,
        };
        let problems = problems.iter().cloned();
        problems
            .map(|(path, reason)| Problem { path, reason })
            .collect()
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
        let holder = docker.holder(OF_AN_ADDRESS, None).unwrap();
        assert!(!holder.is_lost());
        assert!(
            matches!(&holder.standing, Standing::Unknown(why) if why.contains("--docker-state-dir"))
        );
        assert!(docker.holder("docker-registry", None).is_none());
    }

    #[test]
    fn an_attachment_that_the_memory_lacks_is_not_lost_unless_docker_says_so() {
        let places = places(Path::new("/nowhere"));
        let mut memory = Remembered::default();
        memory.problems.push(("file".into(), "damaged".to_owned()));
        for memory in [Remembered::default(), memory] {
            let docker = Docker::read(&Memory::Read(memory), &places);
            let ip = Some("10.1.0.2".parse().unwrap());
            let holder = docker.holder(OF_AN_ADDRESS, ip).unwrap();
            assert!(
                matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock"))
            );
        }
        let docker = Docker {
            answer: Some(Ok(Answer::new(Engine::default()))),
            ..Docker::default()
        };
        let standing = |ip| docker.holder(OF_AN_ADDRESS, ip).unwrap().standing;
        let ip = Some("10.1.0.2".parse().unwrap());
        assert_eq!(standing(ip), Standing::Forgotten);
        assert!(matches!(standing(None), Standing::Unknown(_)));
    }

    #[test]
    fn an_attachment_that_docker_cant_be_asked_for_is_not_lost() {
        let mut memory = Remembered::default();
        memory
            .addresses
            .push(docker_ipam_delegated::state::view::RememberedAddress {
                container_id: OF_AN_ADDRESS.parse().unwrap(),
                pool: "p".to_owned(),
                ip: None,
            });
        let places = places(Path::new("/nowhere"));
        let docker = Docker::read(&Memory::Read(memory), &places);
        let holder = docker.holder(OF_AN_ADDRESS, None).unwrap();
        assert!(matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock")));
    }
}
