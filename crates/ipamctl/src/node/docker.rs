//! The attachments that `docker-ipam-delegated` has made for Docker on this node, and whether
//! Docker still has each of them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;

use docker_ipam_delegated::docker::engine::Engine;
use docker_ipam_delegated::docker::judgement::{Held, Verdict, judge};
use docker_ipam_delegated::state::attachment_id::is_attachment;
use docker_ipam_delegated::state::view::Remembered;
use ipam::IpNet;

use crate::arguments::DockerPlaces;
use crate::node::docker_memory::Memory;
use crate::node::names::Names;

/// The attachments of `docker-ipam-delegated`, and Docker's answer.
#[derive(Debug, Default)]
pub(crate) struct Docker {
    /// The attachments in the daemon's memory, by the container ID that it has chosen.
    remembered: HashMap<String, RememberedAttachment>,
    /// Docker's networks and containers, and their addresses, or the reason why they are
    /// unknown; `None` if Docker wasn't asked.
    answer: Option<Result<(Engine, BTreeSet<IpAddr>), String>>,
    /// The subnets that the daemon remembers, and Docker has no network of, by its whole
    /// answer; none if Docker can't be asked.
    pub(crate) lost_subnets: Vec<LostSubnet>,
}

/// An attachment in the daemon's memory.
#[derive(Debug)]
enum RememberedAttachment {
    /// An address, and the subnet of its pool, as far as they are known.
    Address(Option<IpNet>, Option<IpAddr>),
    Endpoint(EndpointId),
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
        let folder = places.docker_state_dir.display();
        let unknown = |reason| Self {
            answer: Some(Err(reason)),
            ..Self::default()
        };
        let memory = match memory {
            Ok(Some(memory)) => memory,
            Ok(None) => {
                return unknown(format!(
                    "{folder} has no memory of docker-ipam-delegated: --docker-state-dir"
                ));
            }
            Err(reason) => return unknown(format!("{folder}: {reason}")),
        };
        let asked = Engine::ask(&places.docker_socket);
        let lost = asked.as_ref().map(|engine| lost_subnets(memory, engine));
        Self {
            remembered: by_container(memory),
            lost_subnets: lost.unwrap_or_default(),
            answer: Some(match asked {
                Ok(engine) => {
                    let addresses = engine.addresses();
                    Ok((engine, addresses))
                }
                Err(error) => Err(format!("{error:#}")),
            }),
        }
    }

    /// What Docker says of the attachment of this container ID and address, if it was made for
    /// Docker.
    pub(crate) fn holder(&self, container: &str, ip: Option<IpAddr>) -> Option<Holder> {
        let answer = self.answer.as_ref()?;
        let remembered = self.remembered.get(container);
        if remembered.is_none() && !is_attachment(container) {
            return None;
        }
        let (engine, addresses) = match answer {
            Ok(answer) => answer,
            Err(reason) => return Some(Standing::Unknown(reason.clone()).into()),
        };
        let held = match (remembered, &ip) {
            (Some(RememberedAttachment::Endpoint(id)), _) => Held::Endpoint(&id.endpoint),
            (Some(RememberedAttachment::Address(Some(subnet), Some(ip))), _) => {
                Held::Address(*subnet, *ip)
            }
            (Some(RememberedAttachment::Address(_, ip)), _) => Held::Attachment(ip.as_slice()),
            (None, Some(ip)) if !addresses.contains(ip) => {
                return Some(Standing::Forgotten.into());
            }
            (None, ip) => Held::Attachment(ip.as_slice()),
        };
        let endpoint = match remembered {
            Some(RememberedAttachment::Endpoint(id)) => Some(id.clone()),
            _ => None,
        };
        Some(Holder {
            endpoint,
            ..judge(held, engine).into()
        })
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
    /// True if Docker won't release it.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.standing, Standing::Lost | Standing::Forgotten)
    }
}

impl From<Standing> for Holder {
    fn from(standing: Standing) -> Self {
        Self {
            names: Names::default(),
            standing,
            endpoint: None,
        }
    }
}

impl From<Verdict> for Holder {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::InUse(user) => Self {
                names: Names::of_docker(&user.network, &user.container.unwrap_or_default()),
                ..Standing::InUse.into()
            },
            Verdict::Lost => Standing::Lost.into(),
            Verdict::Unknown(why) => Standing::Unknown(why.to_owned()).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::docker_memory;
    use std::path::Path;

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
        let docker = Docker::read(&docker_memory::read(&places), &places);
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
            let docker = Docker::read(&Ok(Some(memory)), &places);
            let ip = Some("10.1.0.2".parse().unwrap());
            let holder = docker.holder(OF_AN_ADDRESS, ip).unwrap();
            assert!(
                matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock"))
            );
        }
        let docker = Docker {
            answer: Some(Ok((Engine::default(), BTreeSet::new()))),
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
        let docker = Docker::read(&Ok(Some(memory)), &places);
        let holder = docker.holder(OF_AN_ADDRESS, None).unwrap();
        assert!(matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock")));
    }
}
