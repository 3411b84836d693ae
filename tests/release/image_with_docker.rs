//! The image under Docker.

use harness::{Dockerd, needs};

use crate::image::{Engine, from_load_to_removal};

#[test]
fn docker_loads_the_images_and_they_install_repair_upgrade_and_remove() {
    needs!("dist");
    let options = ["--bridge=none", "--iptables=false"];
    let Some(docker) = Dockerd::start(&options) else {
        return;
    };
    from_load_to_removal(&Engine {
        command: &|arguments| docker.command(arguments),
        options: Vec::new(),
        sandbox: &docker.sandbox,
    });
}
