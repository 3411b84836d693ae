//! Harness of the end-to-end tests: sandboxes with the plugins in them, calls of the real
//! executables, network namespaces. What can't do its work panics with the reason: the test has
//! failed.

#[cfg(feature = "tls")]
mod api_server;
mod assertions;
mod background;
mod build;
pub mod call_points;
mod calls;
#[cfg(feature = "tls")]
mod certificates;
mod cgroup;
mod clock;
#[cfg(feature = "tls")]
mod cluster;
pub mod cni_network;
#[cfg(feature = "tls")]
mod daemon;
mod docker_daemon;
mod dockerd;
mod documents;
mod elf;
mod etcd_member;
mod failure_report;
mod fake_docker;
mod fault_walk;
mod history;
mod installer;
pub mod kill_points;
#[cfg(feature = "tls")]
mod kubernetes;
mod kubernetes_programs;
mod node;
mod podman;
mod reference;
mod release;
mod rootfs;
mod run;
pub mod runtimes;
mod sample;
mod sandbox;
mod skip;
pub mod strace;
mod verbose_log;
pub mod waiting;

#[cfg(feature = "tls")]
pub use api_server::{ApiAnswer, ApiServer};
pub use assertions::assert_has;
pub use background::Background;
pub use build::{BUILT, build_all, example, executable, folder_of_builds, plugins};
pub use calls::{RANGES_CHAIN, RULES_CHAIN, many_routes};
#[cfg(feature = "tls")]
pub use certificates::{Authority, CertificateFiles};
pub use cgroup::Cgroup;
pub use clock::{CC, StoppedClock};
#[cfg(feature = "tls")]
pub use cluster::{Cluster, Cut, MEMBERS, Namespace, PREFIX, ip_of_key, metrics_of, sum_of_metric};
pub use docker_daemon::{
    DockerAnswer, DockerDaemon, docker_daemon_executable, docker_pool, docker_request, is_answered,
    read_docker_answer,
};
pub use dockerd::{DOCKERD, Dockerd};
pub use documents::{blocks, document, make_old, replay};
pub use elf::segment_types;
pub use etcd_member::{ETCD, ETCDCTL, EtcdMember};
pub use fake_docker::FakeDocker;
pub use fault_walk::{ERRORS, FaultPoint, FaultWalk};
pub use history::{Address, Command, History, Hold, Observation, Operation, Outcome, Violation};
pub use installer::{
    Installation, Staying, installer_executable, plugin_of_version, unmarked, write_executable,
};
#[cfg(feature = "tls")]
pub use kubernetes::{
    Answer, ApiProxy, ContainerRuntime, Fate, KubernetesApi, KubernetesCluster, KubernetesNode,
    NODES, POD_IMAGE, Pod, PodSandboxes, ProxiedRequest, claim, foreign_kind,
    kind_of_virtual_machines, pod, virtual_machine, workload,
};
pub use kubernetes_programs::{KUBECTL, KUBERNETES_PROGRAMS, RUNTIMES, kubernetes_programs};
pub use node::Node;
pub use podman::{Podman, podman_command, write_settings};
pub use reference::{DNSMASQ, REFERENCE_PLUGINS, is_root, reference};
pub use release::{Image, Release, dist, one_inode};
pub use rootfs::{BUSYBOX, make_rootfs};
pub use run::{Call, Output, Running, answer_of};
pub use sample::{ALL_POINTS, SAMPLE, is_in_turn, sample};
pub use sandbox::{Flavour, Form, Sandbox, names};
pub use shipped::{
    ALLOCATOR, BUILD_ENV, DHCP_RENEWER, DOCKER_DAEMON, Executable, INSTALLER, IPAM_DELEGATED,
    IPAMCTL, MULTI_CALL, NETWORK_EXECUTABLES, PLUGINS, TARGET, cargo, cargo_by_hand, debug_dir,
    network_plugins, repository, target_dir,
};
pub use skip::{
    LEFT_OUT_FILE, PACKAGE, Reason, is_sampled, missing, report_left_out, skip, skip_for,
};
pub use strace::STRACE;
pub use verbose_log::log;
pub use waiting::kill_all;
