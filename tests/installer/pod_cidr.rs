//! The image's entry point with `${podCIDR}` in a ConfigMap: the node's subnet is read from an API
//! server, which may refuse or be unreachable.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{ApiAnswer, ApiServer, Authority, Call, Installation, Staying, installer_executable};

const TOKEN: &str = "a-token-of-the-service-account";

/// An installation whose catalogue and conflists are in `config`, and an API server.
struct World {
    installation: Installation,
    server: ApiServer,
}

impl World {
    fn new(subnet: &str) -> Self {
        let installation = Installation::default();
        let server = ApiServer::start(&installation.path("cluster"), TOKEN);
        let world = Self {
            installation,
            server,
        };
        world.write_pools(subnet);
        world
    }

    fn write_pools(&self, subnet: &str) {
        let pools = format!(r#"{{"pools": {{"all": {{"subnet": "{subnet}"}}}}}}"#);
        let rules = r#"{"rules": [{"pools": ["all"]}]}"#;
        let files = [("10-pools.json", &*pools), ("20-rules.json", rules)];
        self.installation.config("pools", &files);
    }

    fn words(&self) -> Vec<String> {
        vec![
            self.installation.config("pools", &[]),
            "--node=worker-1".to_owned(),
            format!("--service-account={}", self.server.account().display()),
        ]
    }

    fn once(&self) -> Call {
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let call = self
            .installation
            .call(&self.installation.release("1.0.0"), &words);
        let call = call.args(["--once"]);
        let [host, port] = self.server.variables();
        call.env(host.0, host.1).env(port.0, port.1)
    }

    fn stay(&self) -> Staying {
        let mut command = Command::new(installer_executable());
        command.envs(self.server.variables());
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.installation
            .stay_by(command, &self.installation.release("1.0.0"), &words)
    }

    fn installed(&self) -> PathBuf {
        self.installation.path("cni/ipam.d/10-pools.json")
    }

    /// True if the pool has this subnet.
    fn has(&self, subnet: &str) -> bool {
        fs::read_to_string(self.installed())
            .is_ok_and(|pools| pools.contains(&format!("\"{subnet}\"")))
    }
}

#[test]
fn the_nodes_own_pod_cidr_takes_the_place_of_the_placeholder() {
    let world = World::new("${podCIDR}");
    world
        .server
        .answer_with_node(&["fd00:7::/64", "10.244.7.0/24"]);
    let staying = world.stay();
    staying.wait(|ready, _| ready);
    assert!(world.has("10.244.7.0/24"));
    let [request] = &world.server.requests()[..] else {
        panic!("{:?}", world.server.requests());
    };
    assert_eq!(request[0], "GET /api/v1/nodes/worker-1 HTTP/1.1");
    let authorization = format!("authorization: Bearer {TOKEN}");
    assert!(
        request
            .iter()
            .any(|header| header.eq_ignore_ascii_case(&authorization)),
        "{request:?}"
    );

    // From now on, the subnet is known.
    world.server.answer(ApiAnswer::Closes);
    world.write_pools("${podCIDR6}");
    staying.wait(|ready, _| ready && world.has("fd00:7::/64"));
    assert_eq!(world.server.requests().len(), 1);
}

#[test]
fn without_the_nodes_subnet_nothing_is_installed_and_the_reason_is_named() {
    let world = World::new("${podCIDR}");
    let forbidden =
        r#"{"kind": "Status", "code": 403, "message": "nodes \"worker-1\" is forbidden"}"#;
    let url = format!(
        "GET https://{}/api/v1/nodes/worker-1",
        world.server.address()
    );
    let cases = [
        (
            ApiAnswer::Says(403, forbidden.to_owned()),
            "403 nodes \"worker-1\" is forbidden",
        ),
        (
            ApiAnswer::Says(
                404,
                forbidden
                    .replace("403", "404")
                    .replace("forbidden", "not found"),
            ),
            "404 nodes \"worker-1\" is not found",
        ),
        (
            ApiAnswer::Says(200, r#"{"spec": {}}"#.to_owned()),
            "the Node has no spec.podCIDRs",
        ),
        (ApiAnswer::Says(200, "<html>".to_owned()), "expected value"),
        (ApiAnswer::Nothing, "no answer within 5 seconds"),
        (ApiAnswer::Closes, ""),
    ];
    let refused = |reason: &str| {
        let output = world.once().run();
        assert!(!output.status.success());
        for text in [
            "10-pools.json: ${podCIDR} isn't known",
            "nothing of it is installed",
            &url,
            reason,
        ] {
            assert!(output.stderr.contains(text), "{text}\n{}", output.stderr);
        }
        assert!(!output.stderr.contains(TOKEN));
        assert!(!world.installed().exists());
    };
    for (answer, reason) in cases {
        world.server.answer(answer);
        refused(reason);
    }
    // A server with another authority.
    world.server.answer_with_node(&["10.244.7.0/24"]);
    let ca = world.server.account().join("ca.crt");
    let ours = fs::read(&ca).unwrap();
    let other = Authority::new(&world.installation.path("other"));
    fs::copy(other.ca(), &ca).unwrap();
    refused("certificate");
    fs::write(&ca, ours).unwrap();

    world.server.answer_with_node(&["fd00:7::/64"]);
    let output = world.once().run();
    output.warns(["the node has no IPv4 subnet, only [fd00:7::/64]"]);
    assert!(!world.installed().exists());
    world.server.answer_with_node(&["10.244.7.0/24"]);
    fs::remove_file(world.server.account().join("token")).unwrap();
    let output = world.once().run();
    output.warns(["no service account"]);
    assert!(!world.installed().exists());
}

#[test]
fn without_a_placeholder_no_api_server_is_asked() {
    let world = World::new("10.1.0.0/24");
    world.server.answer_with_node(&["10.244.7.0/24"]);
    assert!(world.once().run().status.success());
    assert!(world.has("10.1.0.0/24"));
    assert!(world.server.requests().is_empty());
}
