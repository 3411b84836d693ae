//! A real dockerd on a manager of a swarm: its answers name networks without containers.

use harness::{KUBERNETES_PROGRAMS, needs};

use crate::dockerd::as_own::with_either;
use crate::dockerd::{create, reserved};

#[test]
fn what_docker_has_lost_is_released_beside_networks_of_a_swarm() {
    needs!(KUBERNETES_PROGRAMS, "/sbin/ip");
    with_either(0, &[], |mut docker| {
        docker.node.sh("ip address add 192.168.250.1/32 dev lo");
        let addresses = "--advertise-addr=192.168.250.1 --listen-addr=192.168.250.1:2377";
        docker.says(&format!("swarm init {addresses}"));
        docker.says("network create --driver=overlay over");
        create(&docker, "net", &["--subnet=10.60.0.0/24"]);
        docker.run("net", "c1", &[]);
        docker.run("net", "c2", &[]);
        docker.kill_daemon();
        docker.says("rm --force c2");
        docker.start_daemon();
        docker.sweep();
        docker.wait(|docker| reserved(docker).len() == 1);
        assert_eq!(reserved(&docker), [docker.address("net", "c1")].into());
    });
}
