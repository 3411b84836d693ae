//! Docker's side of a node: the attachments that `docker-ipam-delegated` has made for
//! Docker, and whether Docker still has each of them.

use std::collections::HashMap;
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

/// The attachments of `docker-ipam-delegated`, and what Docker says of them.
#[derive(Debug, Default)]
pub(crate) struct Docker {
    /// By container ID, which the daemon has chosen.
    holders: HashMap<String, Holder>,
    /// Those of the daemon's attachments that are not in its memory.
    others: Option<Others>,
    /// The subnets that the daemon remembers, and Docker has no network of.
    lost_subnets: Vec<LostSubnet>,
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

/// What holds for attachments that are not in the daemon's memory.
#[derive(Debug)]
enum Others {
    /// Nobody can say.
    Unknown(Holder),
    /// Docker has said which addresses it has.
    Asked {
        in_use: HashMap<IpAddr, Holder>,
        forgotten: Holder,
        /// For an attachment whose address isn't known.
        without_address: Holder,
    },
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
    /// Nobody can say, for this reason.
    Unknown(String),
}

impl Docker {
    /// Compares what the daemon remembers with what Docker says.
    pub(crate) fn read(memory: &Memory, places: &DockerPlaces) -> Self {
        let unknown = |reason| Some(Others::Unknown(Holder::nameless(Standing::Unknown(reason))));
        let Memory::Read(memory) = memory else {
            return Self {
                others: unknown(memory.reason(&places.docker_state_dir)),
                ..Self::default()
            };
        };
        match Engine::ask(&places.docker_socket) {
            Ok(engine) => Self {
                holders: remembered_holders(memory, &engine),
                others: Some(Others::asked(&engine)),
                lost_subnets: lost_subnets(memory, &engine),
            },
            Err(error) => {
                let reason = format!("{error:#}");
                Self {
                    holders: nobody_knows(memory, &reason),
                    others: unknown(reason),
                    ..Self::default()
                }
            }
        }
    }

    /// The subnets that the daemon remembers, and Docker has no network of, by its whole
    /// answer; none if Docker can't be asked.
    pub(crate) fn lost_subnets(&self) -> &[LostSubnet] {
        &self.lost_subnets
    }

    /// Docker's side of the attachment of this container ID and address, if it was made for
    /// Docker.
    pub(crate) fn holder(&self, container: &str, ip: Option<IpAddr>) -> Option<&Holder> {
        if let Some(holder) = self.holders.get(container) {
            return Some(holder);
        }
        let others = self.others.as_ref().filter(|_| is_attachment(container))?;
        Some(match others {
            Others::Unknown(holder) => holder,
            Others::Asked {
                in_use,
                forgotten,
                without_address,
            } => ip.map_or(without_address, |ip| in_use.get(&ip).unwrap_or(forgotten)),
        })
    }
}

impl Others {
    fn asked(engine: &Engine) -> Self {
        let addresses = engine.addresses().into_iter();
        let holder = |ip| (ip, Holder::of(judge(Held::Attachment(&[ip]), engine), None));
        Self::Asked {
            in_use: addresses.map(holder).collect(),
            forgotten: Holder::nameless(Standing::Forgotten),
            without_address: Holder::of(judge(Held::Attachment(&[]), engine), None),
        }
    }
}

fn lost_subnets(memory: &Remembered, engine: &Engine) -> Vec<LostSubnet> {
    let pools = memory.pools.iter();
    let lost = pools.filter(|it| judge(Held::Pool(it.subnet), engine) == Verdict::Lost);
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

fn remembered_holders(memory: &Remembered, engine: &Engine) -> HashMap<String, Holder> {
    let addresses = memory.addresses.iter().map(|address| {
        let pool = memory.pools.iter().find(|it| it.id == address.pool);
        let ips: Vec<IpAddr> = address.ip.into_iter().collect();
        let held = match (pool, address.ip) {
            (Some(pool), Some(ip)) => Held::Address(pool.subnet, ip),
            _ => Held::Attachment(&ips),
        };
        let holder = Holder::of(judge(held, engine), None);
        (address.container_id.to_string(), holder)
    });
    let endpoints = memory.endpoints.iter().map(|it| {
        let id = EndpointId {
            network: it.network.clone(),
            endpoint: it.id.clone(),
        };
        let holder = Holder::of(judge(Held::Endpoint(&it.id), engine), Some(id));
        (it.container_id.clone(), holder)
    });
    addresses.chain(endpoints).collect()
}

fn nobody_knows(memory: &Remembered, reason: &str) -> HashMap<String, Holder> {
    let addresses = memory.addresses.iter().map(|it| it.container_id.as_str());
    let endpoints = memory.endpoints.iter().map(|it| it.container_id.as_str());
    let unknown = |id: &str| {
        let standing = Standing::Unknown(reason.to_owned());
        (id.to_owned(), Holder::nameless(standing))
    };
    addresses.chain(endpoints).map(unknown).collect()
}

impl Holder {
    fn nameless(standing: Standing) -> Self {
        Self {
            names: Names::default(),
            standing,
            endpoint: None,
        }
    }

    fn of(verdict: Verdict, endpoint: Option<EndpointId>) -> Self {
        let (names, standing) = match verdict {
            Verdict::InUse(user) => {
                let container = user.container.unwrap_or_default();
                let names = Names::of_docker(&user.network, &container);
                (names, Standing::InUse)
            }
            Verdict::Lost => (Names::default(), Standing::Lost),
            Verdict::Unknown(why) => (Names::default(), Standing::Unknown(why.to_owned())),
        };
        Self {
            names,
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
        let others = Others::asked(&Engine::default());
        let docker = Docker {
            others: Some(others),
            ..Docker::default()
        };
        let standing = |ip| &docker.holder(OF_AN_ADDRESS, ip).unwrap().standing;
        let ip = Some("10.1.0.2".parse().unwrap());
        assert_eq!(*standing(ip), Standing::Forgotten);
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
