//! A walk through both documents of Docker's protocol (`docs/ipam.md` and `docs/remote.md` of
//! moby/libnetwork), sentence by sentence: which test shows that it holds, or why it doesn't hold.

use std::io::Write;
use std::os::unix::net::UnixStream;

use harness::{DockerDaemon, Node, Sandbox, needs, read_docker_answer};
use serde_json::{Value, json};

use crate::calls::LOCAL;
use harness::cni_network::{configure, left};

/// The daemon on a node with the network configuration `web`.
struct Walk {
    sandbox: Sandbox,
    node: Node,
    daemon: DockerDaemon,
}

impl Walk {
    fn call(&self, name: &str, body: &Value) -> Value {
        let answer = self.daemon.call(&format!("/{name}"), body);
        assert_eq!(answer.status, 200, "{name} {body}: {answer:?}");
        answer.body
    }

    fn status(&self, name: &str, body: &str) -> u16 {
        let answer = self.daemon.try_call(&format!("/{name}"), body);
        answer.unwrap().status
    }

    fn network(&self, v4: &Value) {
        let body = json!({"NetworkID": "n1", "IPv4Data": v4, "IPv6Data": [], "Options":
            {"com.docker.network.generic": {"conflist": "web"}}});
        assert_eq!(self.call("NetworkDriver.CreateNetwork", &body), json!({}));
    }

    fn endpoint(&self, call: &str, interface: &Value) -> Value {
        let body = json!({"NetworkID": "n1", "EndpointID": "e1", "SandboxKey": "/x",
            "Options": {}, "Interface": interface});
        self.call(&format!("NetworkDriver.{call}"), &body)
    }

    /// Runs this with an endpoint, which is deleted afterwards.
    fn with_endpoint(&self, v4: &Value, interface: &Value, run: impl FnOnce(&Value)) {
        self.network(v4);
        let made = self.endpoint("CreateEndpoint", interface);
        assert!(!is_refused(&made), "{made}");
        run(&made);
        for call in ["Leave", "DeleteEndpoint"] {
            assert_eq!(self.endpoint(call, &json!({})), json!({}));
        }
        let deleted = self.call("NetworkDriver.DeleteNetwork", &json!({"NetworkID": "n1"}));
        assert_eq!(deleted, json!({}));
        assert_eq!(left(&self.node), [""; 0]);
        // It has the gateway of this network.
        self.node.sh("ip link delete web0");
        assert_eq!(self.sandbox.reserved("web"), [""; 0]);
    }
}

fn is_refused(answer: &Value) -> bool {
    answer["Err"].as_str().is_some_and(|why| !why.is_empty())
}

/// The sentences of `docs/ipam.md`, by the test that shows that they hold, or that they don't, for a
/// reason.
const IPAM: &[(&str, &[&str])] = &[
    (
        "calls::the_calls_of_a_real_dockerd_get_the_answers_that_it_worked_with",
        &[
            "libnetwork will query the remote driver about the default local and global address spaces strings, and about the driver capabilities",
            "A successful response is in the form: PoolID, Pool, Data",
            "If empty, the IPAM driver chooses any available address on the pool; Address is the allocated address in CIDR format (A.B.C.D/MM)",
            "If [RequiresMACAddress is] true, libnetwork will generate a random MAC address | not held: it is false: a new MAC address at each start keeps neighbours waiting",
        ],
    ),
    (
        "calls::addresses_are_remembered_over_sigkill",
        &["It is the remote driver's responsibility to manage its database"],
    ),
    (
        "pools::each_refusal_of_a_pool_names_what_is_wrong",
        &[
            "Address space is a mandatory field",
            "same pool can exist on N different address spaces | not held: there is one space for this node; another one is refused by name",
            "the global address spaces does [need to get synchronized across the cluster] | not held: it is refused: networks of a swarm keep Docker's own IPAM",
            "pool describes the pool of addresses in CIDR notation",
            "A request with empty Pool and non-empty SubPool should be rejected as invalid",
        ],
    ),
    (
        "calls::an_address_is_any_of_the_sub_pool_or_the_requested_one_of_the_pool",
        &[
            "[an address space] denotes a set of non-overlapping pools | not held: pools that overlap share their addresses, none of which is given twice: two macvlan networks have one subnet",
            "subpool indicates a smaller range of addresses from the pool",
            "If this address cannot be satisfied, the request fails",
        ],
    ),
    (
        "pools::a_network_that_asks_for_nothing_gets_a_default_pool_of_its_own",
        &[
            "When they are not specified, Ipam driver may choose to return a self chosen pool for this request; the v6 flag needs to be set appropriately",
            "Multiple identical calls must return the same result [without a Pool] | not held: two networks would share a subnet that nobody has asked for; Docker's own driver chooses another one each time, too",
        ],
    ),
    (
        "as_libnetworks::identical_requests_have_identical_ids_as_in_add_release_pool_id",
        &[
            "Multiple identical calls must return the same result",
            "[the last] ReleasePool releases the address pool identified by the passed id | not held: its claim and gateway are released when Docker says that no network has the subnet; nobody remembers the ID, which remains valid",
            "Same pools must have same pool id",
        ],
    ),
    (
        "as_libnetworks::each_pool_is_released_as_in_remove_subnet",
        &["It is the IPAM driver's responsibility to keep a reference count for the pool"],
    ),
    (
        "calls::a_gateway_is_reserved_and_nobody_elses",
        &[
            "Request the network gateway address if specified. Otherwise request any address from the pool to be used as network gateway",
        ],
    ),
    (
        "calls::a_failed_creation_of_a_network_leaves_only_what_docker_is_asked_about",
        &["Request each of the specified auxiliary addresses; release each of them"],
    ),
    (
        "calls::an_address_is_released_by_both_paths_and_twice",
        &[
            "For this API, the remote driver will receive a POST message to the URL /IpamDriver.RleaseAddress",
        ],
    ),
];

/// The sentences of `docs/remote.md` that recorded calls show.
const REMOTE: &[(&str, &[&str])] = &[
    (
        "calls::the_calls_of_a_real_dockerd_get_the_answers_that_it_worked_with",
        &[
            "It must respond with a manifest of the form Implements; other entries in the list value are allowed",
        ],
    ),
    (
        "endpoints::the_calls_of_a_real_dockerd_are_answered_as_their_descriptions_say",
        &[
            "Value of Scope should be either local or global; similarly, value of ConnectivityScope",
            "MacAddress and either or both of Address and AddressIPv6 must be given",
            "If the remote process was supplied a non-empty value in Interface, it must respond with an empty Interface value",
            "[it must respond with an empty Interface value, also if only addresses are supplied] | not held: Docker takes the MAC address that it has not given, and needs it",
            "It must send a response of the form Value, an arbitrary (possibly empty) map",
            "SrcName is the name of the OS level interface that the remote process created; DstPrefix is a prefix for the name",
            "If no gateway and no default static route is set, LibNetwork will add an additional interface (docker_gwbridge) | not held: the configuration decides whether there is a default route: the answer has DisableGatewayService",
            "Create and delete a network, create and delete an endpoint, Leave: the success response is empty",
        ],
    ),
];

/// A sentence, and what shows that it holds.
type Shown = (&'static str, fn(&Walk));

/// The other sentences of `docs/remote.md`.
const REMOTE_BY_WALK: &[Shown] = &[
    (
        "If the remote process cannot decode, or otherwise detects a syntactic problem with the HTTP request or payload, it must respond with an HTTP error status (4xx or 5xx)",
        |walk| {
            let of_endpoints = [
                "NetworkDriver.CreateEndpoint",
                "NetworkDriver.DeleteEndpoint",
                "NetworkDriver.EndpointOperInfo",
                "NetworkDriver.Join",
                "NetworkDriver.Leave",
            ];
            let with_needed_keys = [
                "IpamDriver.RequestAddress",
                "IpamDriver.ReleasePool",
                "NetworkDriver.CreateNetwork",
                "NetworkDriver.DeleteNetwork",
            ];
            let with_needed_keys = [&with_needed_keys[..], &of_endpoints].concat();
            let others = [
                "IpamDriver.RequestPool",
                "IpamDriver.ReleaseAddress",
                "NetworkDriver.DiscoverNew",
                "NetworkDriver.DiscoverDelete",
            ];
            for call in with_needed_keys.iter().copied().chain(others) {
                for body in ["", "{", "[]", "7", "null", "{}{}", "\u{feff}{}"] {
                    assert_eq!(walk.status(call, body), 400, "{call} {body:?}");
                }
            }
            for call in with_needed_keys {
                assert_eq!(walk.status(call, "{}"), 400, "{call}");
            }
            for call in of_endpoints {
                let refused = walk
                    .daemon
                    .try_call(&format!("/{call}"), r#"{"NetworkID":"n1"}"#);
                let refused = refused.unwrap();
                assert_eq!(refused.status, 400, "{call}: {refused:?}");
                assert_eq!(refused.body["Err"], "missing field `EndpointID`", "{call}");
            }
            for body in [r#"{"AddressSpace":7}"#, r#"{"Options":[1]}"#] {
                assert_eq!(walk.status("IpamDriver.RequestPool", body), 400, "{body}");
            }
            for (request, status) in [
                (&b"GET /Plugin.Activate HTTP/1.1\r\nHost: x\r\n\r\n"[..], 405),
                (
                    b"POST /IpamDriver.RequestPool HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\xff\xfe",
                    400,
                ),
            ] {
                let mut stream = UnixStream::connect(walk.sandbox.docker_socket()).unwrap();
                stream.write_all(request).unwrap();
                assert_eq!(read_docker_answer(&stream).unwrap().status, status);
            }
            // These calls need no payload.
            assert_eq!(walk.status("Plugin.Activate", "{"), 200);
            assert_eq!(walk.status("IpamDriver.GetCapabilities", ""), 200);
        },
    ),
    (
        "If the remote process http server receives a request for an unknown URI, it should respond with the HTTP StatusCode 404 Not Found",
        |walk| {
            for unknown in [
                "",
                "Plugin.activate",
                "IpamDriver.Unknown",
                "IpamDriver.requestpool",
                "NetworkDriver.AllocateNetwork",
                "NetworkDriver.ProgramExternalConnectivity",
                "IpamDriver.RequestPool/",
            ] {
                assert_eq!(walk.status(unknown, "{}"), 404, "{unknown}");
            }
        },
    ),
    (
        "If the remote process can decode the request, but cannot complete the operation, it must send a response in the form Err",
        |walk| {
            let unknown = json!({"NetworkID": "x", "EndpointID": "y", "PoolID": "z"});
            for (call, why) in [
                (
                    "/IpamDriver.RequestAddress",
                    "PoolID: \"z\" is no pool of this daemon: ",
                ),
                ("/NetworkDriver.Join", "NetworkID: "),
            ] {
                // Docker's IPAM client reads `Error`, which is the same.
                let said = walk.daemon.err(call, &unknown);
                assert!(said.starts_with(why), "{said}");
            }
        },
    ),
    (
        "The string value supplied may appear in logs, so should not include confidential information",
        |walk| {
            let options = json!({"conflist": "nobody", "token": "secret-of-somebody"});
            let body = json!({"AddressSpace": LOCAL, "Options": options});
            let said = walk.daemon.err("/IpamDriver.RequestPool", &body);
            assert!(!said.contains("secret-of-somebody"), "{said}");
        },
    ),
    (
        "The network driver is expected to honor the ip-addressing data supplied by IPAM driver",
        |walk| {
            let v4 = json!([{"AddressSpace": LOCAL, "Pool": "10.95.0.0/24", "Gateway": "10.95.0.9/24", "AuxAddresses": {"router": "10.95.0.3"}}]);
            walk.with_endpoint(&v4, &json!({"Address": "10.95.0.7/24"}), |_| {
                assert_eq!(walk.endpoint("Join", &json!({}))["Gateway"], "10.95.0.9");
            });
        },
    ),
    (
        "Gateway is optional and if supplied is an IP address as a string; GatewayIPv6 is optional",
        |walk| {
            walk.with_endpoint(&json!([]), &json!({}), |_| {
                let joined = walk.endpoint("Join", &json!({}));
                assert_eq!(
                    (&joined["Gateway"], &joined["GatewayIPv6"]),
                    (&json!("10.95.0.1"), &json!("fd00:95::1"))
                );
            });
        },
    ),
    (
        "Routes are either given a RouteType of 0 and a value for NextHop; or, a RouteType of 1 and no value for NextHop",
        |walk| {
            walk.with_endpoint(&json!([]), &json!({}), |_| {
                let joined = walk.endpoint("Join", &json!({}));
                let routes = joined["StaticRoutes"].as_array().unwrap();
                assert_eq!(routes.len(), 2);
                for route in routes {
                    assert_eq!(
                        route["RouteType"] == 0,
                        route["NextHop"].is_string(),
                        "{route}"
                    );
                }
            });
        },
    ),
    (
        "The response [to DiscoverNew and DiscoverDelete] indicating success is empty",
        |walk| {
            for call in ["NetworkDriver.DiscoverNew", "NetworkDriver.DiscoverDelete"] {
                let node = json!({"DiscoveryType": 1, "DiscoveryData": {"Address": "10.0.0.1", "self": true}});
                assert_eq!(walk.call(call, &node), json!({}));
            }
        },
    ),
];

#[test]
fn each_sentence_of_both_documents_holds_or_has_a_reason() {
    needs!("root", "bridge", "static", "/sbin/ip");
    let sandbox = Sandbox::default();
    let routes = [
        json!({"dst": "10.123.0.0/16", "gw": "10.95.0.9"}),
        json!({"dst": "::/0"}),
        json!({"dst": "fd00:123::/48", "gw": "fd00:95::9"}),
    ];
    configure(&sandbox, &json!({}), &routes);
    let node = Node::new();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    let walk = Walk {
        sandbox,
        node,
        daemon,
    };
    for (document, tests) in [("ipam.md", IPAM), ("remote.md", REMOTE)] {
        for (test, sentences) in tests {
            let (module, name) = test.split_once("::").unwrap();
            let module = harness::document(&format!("tests/docker/{module}.rs"));
            assert!(module.contains(&format!("fn {name}()")), "no test {test}");
            for sentence in *sentences {
                println!("{document} | {sentence} | {test}");
            }
        }
    }
    for (sentence, show) in REMOTE_BY_WALK {
        println!("remote.md | {sentence}");
        show(&walk);
    }
}
