//! The attachments of `docker-ipam-delegated` on this node, and whether Docker still has them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use docker_ipam_delegated::docker::engine::Engine;
use docker_ipam_delegated::docker::judgement::{Held, Verdict, judge};
use docker_ipam_delegated::state::attachment_id::is_attachment;
use docker_ipam_delegated::state::view::{Remembered, RememberedEndpoint};
use ipam::IpNet;

use crate::node::docker_memory::Memory;
use crate::node::names::Names;

/// The attachments of `docker-ipam-delegated`, and Docker's answer.
#[derive(Debug, Default)]
pub(crate) struct Docker {
    /// The attachments in the daemon's memory, by the container ID that it has chosen.
    remembered: HashMap<String, RememberedAttachment>,
    /// The addresses of Docker's networks and containers, and these, or the reason why they are
    /// unknown; `None` if Docker wasn't asked.
    answer: Option<Result<(BTreeSet<IpAddr>, Engine), String>>,
    /// The subnets in the daemon's memory for which Docker has no network; empty if Docker
    /// doesn't answer.
    pub(crate) lost_subnets: Vec<LostSubnet>,
}

/// An attachment in the daemon's memory.
#[derive(Debug)]
enum RememberedAttachment {
    /// The subnet of its pool, and its address if that is known.
    Address(IpNet, Option<IpAddr>),
    Endpoint(RememberedEndpoint),
}

/// A reference in the daemon's memory to a subnet for which Docker has no network.
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

/// An attachment of Docker.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// Docker's names of the network and the container, as far as they are known.
    pub(crate) names: Names,
    pub(crate) standing: Standing,
    /// The endpoint of the network driver, if it is one.
    pub(crate) endpoint: Option<RememberedEndpoint>,
}

/// Whether Docker has an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A container has it, or the network itself.
    InUse,
    /// No container and no network of Docker has it.
    Lost,
    /// The daemon's memory doesn't have it, and Docker doesn't have its address.
    Forgotten,
    /// Unknown, for this reason.
    Unknown(String),
}

impl Docker {
    /// Compares the daemon's memory, in this state folder, with Docker's answer on this socket.
    pub(crate) fn read(memory: &Memory, folder: &Path, socket: &Path) -> Self {
        let folder = folder.display();
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
        let asked = Engine::ask(socket).map_err(|error| format!("{error:#}"));
        let lost = asked.as_ref().map(|engine| lost_subnets(memory, engine));
        Self {
            remembered: by_container(memory),
            lost_subnets: lost.unwrap_or_default(),
            answer: Some(asked.map(|engine| (engine.addresses(), engine))),
        }
    }

    /// Docker's answer about the attachment with this container ID and address; `None` if it isn't
    /// an attachment of Docker.
    pub(crate) fn holder(&self, container: &str, ip: Option<IpAddr>) -> Option<Holder> {
        let answer = self.answer.as_ref()?;
        let remembered = self.remembered.get(container);
        if remembered.is_none() && !is_attachment(container) {
            return None;
        }
        let mut holder = Holder {
            names: Names::default(),
            standing: Standing::Forgotten,
            endpoint: None,
        };
        let (addresses, engine) = match answer {
            Ok(answer) => answer,
            Err(reason) => {
                holder.standing = Standing::Unknown(reason.clone());
                return Some(holder);
            }
        };
        let held = match (remembered, &ip) {
            (Some(RememberedAttachment::Endpoint(endpoint)), _) => {
                holder.endpoint = Some(endpoint.clone());
                Held::Endpoint(&endpoint.id)
            }
            (Some(RememberedAttachment::Address(subnet, Some(ip))), _) => {
                Held::Address(*subnet, *ip)
            }
            (Some(RememberedAttachment::Address(_, ip)), _) => Held::Attachment(ip.as_slice()),
            (None, Some(ip)) if !addresses.contains(ip) => return Some(holder),
            (None, ip) => Held::Attachment(ip.as_slice()),
        };
        holder.standing = match judge(held, engine) {
            Verdict::InUse(user) => {
                let container = user.container.unwrap_or_default();
                holder.names = Names::of_docker(&user.network, &container);
                Standing::InUse
            }
            Verdict::Lost => Standing::Lost,
            Verdict::Unknown(why) => Standing::Unknown(why.to_owned()),
        };
        Some(holder)
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
        let held = RememberedAttachment::Address(address.subnet, address.ip);
        (address.container_id.to_string(), held)
    });
    let endpoints = memory.endpoints.iter().map(|endpoint| {
        let held = RememberedAttachment::Endpoint(endpoint.clone());
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

#[cfg(test)]
mod tests {
    use super::*;

    const OF_AN_ADDRESS: &str = "docker-18f0a1b2c3d4e5f6-0000002a";

    fn read(memory: &Memory) -> Docker {
        Docker::read(memory, Path::new("/nowhere"), Path::new("/none.sock"))
    }

    #[test]
    fn without_a_memory_nobody_can_say_whether_docker_has_an_attachment() {
        let docker = read(&Ok(None));
        let holder = docker.holder(OF_AN_ADDRESS, None).unwrap();
        assert!(!holder.is_lost());
        assert!(
            matches!(&holder.standing, Standing::Unknown(why) if why.contains("--docker-state-dir"))
        );
        assert!(docker.holder("docker-registry", None).is_none());
    }

    #[test]
    fn an_attachment_that_the_memory_lacks_is_not_lost_unless_docker_says_so() {
        let mut memory = Remembered::default();
        memory.problems.push(("file".into(), "damaged".to_owned()));
        for memory in [Remembered::default(), memory] {
            let docker = read(&Ok(Some(memory)));
            let ip = Some("10.1.0.2".parse().unwrap());
            let holder = docker.holder(OF_AN_ADDRESS, ip).unwrap();
            assert!(
                matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock"))
            );
        }
        let docker = Docker {
            answer: Some(Ok((BTreeSet::new(), Engine::default()))),
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
                subnet: "10.1.0.0/16".parse().unwrap(),
                ip: None,
            });
        let docker = read(&Ok(Some(memory)));
        let holder = docker.holder(OF_AN_ADDRESS, None).unwrap();
        assert!(matches!(&holder.standing, Standing::Unknown(why) if why.contains("none.sock")));
    }
}
