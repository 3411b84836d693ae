//! The image under podman.

use harness::needs;
use serde_json::json;

use crate::image::{Engine, from_load_to_removal};
use harness::Podman;

#[test]
fn podman_loads_the_images_and_they_install_repair_upgrade_and_remove() {
    needs!("dist");
    let Some(podman) = Podman::new(&json!([])) else {
        return;
    };
    from_load_to_removal(&Engine {
        command: &|arguments| podman.command(arguments),
        options: vec![format!("--cgroup-parent={}", podman.cgroup.path())],
        sandbox: &podman.sandbox,
    });
}
