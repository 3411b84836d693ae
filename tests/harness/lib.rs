//! Harness of the end-to-end tests: sandboxes with the plugins in them, calls of the real
//! executables, network namespaces.

mod cgroup;
mod docker_daemon;
mod dockerd;
mod elf;
mod fake_docker;
mod node;
mod plugins;
mod reference;
mod release;
mod rootfs;
mod run;
mod sandbox;
mod skip;

pub use cgroup::Cgroup;
pub use docker_daemon::{
    DOCKER_DAEMON, DockerAnswer, DockerDaemon, docker_daemon_executable, docker_request,
    read_docker_answer,
};
pub use dockerd::{DOCKERD, Dockerd};
pub use elf::segment_types;
pub use fake_docker::FakeDocker;
pub use node::Node;
pub use plugins::{MULTI_CALL, ORCHESTRATOR, PLUGINS, TOOL};
pub use reference::{DNSMASQ, REFERENCE_PLUGINS, is_root, reference};
pub use release::{Release, dist, one_inode};
pub use rootfs::{BUSYBOX, make_rootfs};
pub use run::{Call, Output, Running, answer_of};
pub use sandbox::{Flavour, Form, Sandbox, example, repository};
pub use skip::{LEFT_OUT_FILE, LeftOut, Reason, missing, skip, skip_for};
