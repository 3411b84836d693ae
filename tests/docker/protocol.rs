//! A walk through both documents of Docker's protocol (`docs/ipam.md` and `docs/remote.md` of
//! moby/libnetwork), sentence by sentence. The table says for each what holds, where else that is
//! tested, or why it doesn't hold.

use harness::{DockerDaemon, Node, Sandbox, needs};
use serde_json::{Value, json};

use crate::calls::LOCAL;
use harness::cni_network::{configure, left};

/// What a sentence is worth here.
enum Verdict {
    /// It holds, as this shows.
    Held(fn(&Walk)),
    /// It holds, as other tests show.
    Elsewhere(&'static str),
    /// It doesn't hold, for this reason, as this shows.
    Not(&'static str, fn(&Walk)),
}

use Verdict::{Elsewhere, Held, Not};

/// The daemon on a node with the network configuration `web`.
struct Walk {
    sandbox: Sandbox,
    node: Node,
    daemon: DockerDaemon,
}

const GATEWAY: &str = "com.docker.network.gateway";

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

    fn pool(&self, pool: &str, sub_pool: &str, v6: bool) -> Value {
        let body = json!({"AddressSpace": LOCAL, "Pool": pool, "SubPool": sub_pool, "V6": v6});
        self.call("IpamDriver.RequestPool", &body)
    }

    fn id(&self, pool: &str) -> String {
        self.pool(pool, "", false)["PoolID"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn address(&self, pool: &str, address: &str, options: &Value) -> Value {
        let body = json!({"PoolID": pool, "Address": address, "Options": options});
        self.call("IpamDriver.RequestAddress", &body)
    }

    fn release(&self, pool: &str, address: &str) {
        let body = json!({"PoolID": pool, "Address": address});
        assert_eq!(self.call("IpamDriver.ReleaseAddress", &body), json!({}));
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

const IPAM: &[(&str, Verdict)] = &[
    (
        "libnetwork will query the remote driver about the default local and global address spaces strings, and about the driver capabilities",
        Held(|walk| {
            let spaces = walk.call("IpamDriver.GetDefaultAddressSpaces", &json!({}));
            assert_eq!(spaces["LocalDefaultAddressSpace"], LOCAL);
            assert_eq!(spaces["GlobalDefaultAddressSpace"], "ipam-delegated-global");
            let can = walk.call("IpamDriver.GetCapabilities", &json!({}));
            assert!(can["RequiresMACAddress"].is_boolean());
        }),
    ),
    (
        "It is the remote driver's responsibility to manage its database",
        Elsewhere("killed, dockerd::killed"),
    ),
    (
        "Address space is a mandatory field",
        Held(|walk| {
            assert!(is_refused(&walk.call(
                "IpamDriver.RequestPool",
                &json!({"Pool": "10.1.0.0/24"})
            )));
        }),
    ),
    (
        "[an address space] denotes a set of non-overlapping pools",
        Not(
            "pools that overlap share their addresses, none of which is given twice: two macvlan networks have one subnet",
            |walk| {
                let [whole, part] = ["10.2.0.0/16", "10.2.0.0/24"].map(|pool| walk.id(pool));
                assert_eq!(
                    walk.address(&whole, "10.2.0.5", &json!({}))["Address"],
                    "10.2.0.5/16"
                );
                assert!(is_refused(&walk.address(&part, "10.2.0.5", &json!({}))));
                walk.release(&whole, "10.2.0.5");
            },
        ),
    ),
    (
        "same pool can exist on N different address spaces",
        Not(
            "there is one space for this node; another one is refused by name",
            |walk| {
                let refused = walk.call(
                    "IpamDriver.RequestPool",
                    &json!({"AddressSpace": "tenant", "Pool": "10.1.0.0/24"}),
                );
                assert!(
                    refused["Err"].as_str().unwrap().contains("\"tenant\""),
                    "{refused}"
                );
            },
        ),
    ),
    (
        "the global address spaces does [need to get synchronized across the cluster]",
        Not(
            "it is refused: networks of a swarm keep Docker's own IPAM",
            |walk| {
                let global =
                    json!({"AddressSpace": "ipam-delegated-global", "Pool": "10.1.0.0/24"});
                assert!(is_refused(&walk.call("IpamDriver.RequestPool", &global)));
            },
        ),
    ),
    (
        "pool describes the pool of addresses in CIDR notation",
        Held(|walk| {
            assert_eq!(walk.pool("10.3.0.0/24", "", false)["Pool"], "10.3.0.0/24");
            for wrong in ["10.3.0.0", "10.3.0.0/33", "x"] {
                assert!(is_refused(&walk.pool(wrong, "", false)), "{wrong}");
            }
        }),
    ),
    (
        "subpool indicates a smaller range of addresses from the pool",
        Held(|walk| {
            let pool = walk.pool("10.3.0.0/24", "10.3.0.128/25", false);
            let id = pool["PoolID"].as_str().unwrap();
            assert_eq!(walk.address(id, "", &json!({}))["Address"], "10.3.0.128/24");
            walk.release(id, "10.3.0.128");
            assert!(is_refused(&walk.pool("10.3.0.0/24", "10.4.0.0/25", false)));
        }),
    ),
    (
        "When they are not specified, Ipam driver may choose to return a self chosen pool for this request; the v6 flag needs to be set appropriately",
        Held(|walk| {
            assert_eq!(walk.pool("", "", false)["Pool"], "10.201.0.0/24");
            assert_eq!(walk.pool("", "", true)["Pool"], "fdc7:1bd2:201::/64");
        }),
    ),
    (
        "Multiple identical calls must return the same result",
        Held(|walk| {
            for (pool, part) in [
                ("10.4.0.0/24", ""),
                ("10.4.0.0/24", "10.4.0.0/25"),
                ("fd00:4::/64", ""),
            ] {
                assert_eq!(walk.pool(pool, part, false), walk.pool(pool, part, false));
            }
            let named = json!({"AddressSpace": LOCAL, "Options": {"conflist": "web"}});
            let request = || walk.call("IpamDriver.RequestPool", &named);
            assert_eq!(request(), request());
        }),
    ),
    (
        "Multiple identical calls must return the same result [without a Pool]",
        Not(
            "two networks would share a subnet that nobody has asked for; Docker's own driver chooses another one each time, too",
            |walk| {
                assert_ne!(walk.pool("", "", false), walk.pool("", "", false));
            },
        ),
    ),
    (
        "It is the IPAM driver's responsibility to keep a reference count for the pool",
        Held(|walk| {
            let [one, other] = ["10.5.0.0/24"; 2].map(|pool| walk.id(pool));
            let release = json!({"PoolID": one});
            assert_eq!(walk.call("IpamDriver.ReleasePool", &release), json!({}));
            assert_eq!(
                walk.address(&other, "", &json!({}))["Address"],
                "10.5.0.1/24"
            );
            walk.release(&other, "10.5.0.1");
        }),
    ),
    (
        "[the last] ReleasePool releases the address pool identified by the passed id",
        Not(
            "its claim and gateway are released when Docker says that no network has the subnet; nobody remembers the ID, which remains valid",
            |walk| {
                let pool = walk.id("10.5.0.0/24");
                assert_eq!(
                    walk.call("IpamDriver.ReleasePool", &json!({"PoolID": pool})),
                    json!({})
                );
                assert_eq!(
                    walk.address(&pool, "", &json!({}))["Address"],
                    "10.5.0.1/24"
                );
                walk.release(&pool, "10.5.0.1");
            },
        ),
    ),
    (
        "Same pools must have same pool id",
        Held(|walk| {
            assert_eq!(walk.id("10.6.0.0/24"), walk.id("10.6.0.9/24"));
            assert_ne!(walk.id("10.6.0.0/24"), walk.id("10.6.0.0/25"));
        }),
    ),
    (
        "A request with empty Pool and non-empty SubPool should be rejected as invalid",
        Held(|walk| {
            assert!(is_refused(&walk.pool("", "10.7.0.0/24", false)));
        }),
    ),
    (
        "A successful response is in the form: PoolID, Pool, Data",
        Held(|walk| {
            let pool = walk.pool("10.7.0.0/24", "", false);
            assert!(
                pool["PoolID"].is_string() && pool["Pool"].is_string() && pool["Data"].is_object()
            );
        }),
    ),
    (
        "Request the network gateway address if specified. Otherwise request any address from the pool to be used as network gateway",
        Held(|walk| {
            let pool = walk.id("10.8.0.0/24");
            let options = json!({"RequestAddressType": GATEWAY});
            assert_eq!(
                walk.address(&pool, "10.8.0.254", &options)["Address"],
                "10.8.0.254/24"
            );
            assert_eq!(walk.address(&pool, "", &options)["Address"], "10.8.0.1/24");
            assert!(is_refused(&walk.address(&pool, "10.8.0.254", &json!({}))));
        }),
    ),
    (
        "Request each of the specified auxiliary addresses; release each of them",
        Held(|walk| {
            let pool = walk.id("10.9.0.0/24");
            assert_eq!(
                walk.address(&pool, "10.9.0.7", &Value::Null)["Address"],
                "10.9.0.7/24"
            );
            walk.release(&pool, "10.9.0.7");
        }),
    ),
    (
        "If this address cannot be satisfied, the request fails",
        Held(|walk| {
            let pool = walk.id("10.9.0.0/24");
            walk.address(&pool, "10.9.0.7", &json!({}));
            for taken in ["10.9.0.7", "10.10.0.7", "10.9.0.255", "x"] {
                assert!(
                    is_refused(&walk.address(&pool, taken, &json!({}))),
                    "{taken}"
                );
            }
            walk.release(&pool, "10.9.0.7");
        }),
    ),
    (
        "If empty, the IPAM driver chooses any available address on the pool; Address is the allocated address in CIDR format (A.B.C.D/MM)",
        Held(|walk| {
            let pool = walk.id("10.9.0.0/24");
            let given = walk.address(&pool, "", &json!({}));
            assert!(
                given["Address"] == "10.9.0.1/24" && given["Data"].is_object(),
                "{given}"
            );
            walk.release(&pool, "10.9.0.1");
        }),
    ),
    (
        "For this API, the remote driver will receive a POST message to the URL /IpamDriver.RleaseAddress",
        Held(|walk| {
            let free = json!({"PoolID": walk.id("10.9.0.0/24"), "Address": "10.9.0.77"});
            assert_eq!(walk.call("IpamDriver.RleaseAddress", &free), json!({}));
        }),
    ),
    (
        "If [RequiresMACAddress is] true, libnetwork will generate a random MAC address",
        Not(
            "it is false: a new MAC address at each start keeps neighbours waiting",
            |walk| {
                assert_eq!(
                    walk.call("IpamDriver.GetCapabilities", &json!({}))["RequiresMACAddress"],
                    false
                );
            },
        ),
    ),
];

const REMOTE: &[(&str, Verdict)] = &[
    (
        "If the remote process cannot decode, or otherwise detects a syntactic problem with the HTTP request or payload, it must respond with an HTTP error status (4xx or 5xx)",
        Held(|walk| {
            for call in [
                "IpamDriver.RequestPool",
                "IpamDriver.RequestAddress",
                "IpamDriver.ReleaseAddress",
                "IpamDriver.ReleasePool",
                "NetworkDriver.CreateNetwork",
                "NetworkDriver.DeleteNetwork",
                "NetworkDriver.CreateEndpoint",
                "NetworkDriver.DeleteEndpoint",
                "NetworkDriver.EndpointOperInfo",
                "NetworkDriver.Join",
                "NetworkDriver.Leave",
                "NetworkDriver.DiscoverNew",
                "NetworkDriver.DiscoverDelete",
            ] {
                for body in ["", "{", "[]", "7", "null", "{}{}", "\u{feff}{}"] {
                    assert_eq!(walk.status(call, body), 400, "{call} {body:?}");
                }
            }
            assert_eq!(
                walk.status("IpamDriver.RequestPool", r#"{"AddressSpace":7}"#),
                400
            );
        }),
    ),
    (
        "If the remote process http server receives a request for an unknown URI, it should respond with the HTTP StatusCode 404 Not Found",
        Held(|walk| {
            for unknown in [
                "",
                "IpamDriver.requestpool",
                "NetworkDriver.AllocateNetwork",
                "NetworkDriver.ProgramExternalConnectivity",
                "IpamDriver.RequestPool/",
            ] {
                assert_eq!(walk.status(unknown, "{}"), 404, "{unknown}");
            }
        }),
    ),
    (
        "If the remote process can decode the request, but cannot complete the operation, it must send a response in the form Err",
        Held(|walk| {
            let unknown = json!({"NetworkID": "x", "EndpointID": "y"});
            for call in ["IpamDriver.RequestAddress", "NetworkDriver.Join"] {
                let mut body = unknown.clone();
                body["PoolID"] = json!("z");
                let answer = walk.call(call, &body);
                // Docker's IPAM client reads `Error`.
                assert!(
                    is_refused(&answer) && answer["Err"] == answer["Error"],
                    "{answer}"
                );
            }
        }),
    ),
    (
        "The string value supplied may appear in logs, so should not include confidential information",
        Elsewhere(
            "without_secrets of crates/cni: a message has keys and values of a request, none of a file of secrets",
        ),
    ),
    (
        "It must respond with a manifest of the form Implements; other entries in the list value are allowed",
        Held(|walk| {
            let manifest = walk.call("Plugin.Activate", &json!({}));
            assert_eq!(
                manifest,
                json!({"Implements": ["IpamDriver", "NetworkDriver"]})
            );
        }),
    ),
    (
        "Value of Scope should be either local or global; similarly, value of ConnectivityScope",
        Held(|walk| {
            let scopes = walk.call("NetworkDriver.GetCapabilities", &json!({}));
            assert_eq!(
                scopes,
                json!({"Scope": "local", "ConnectivityScope": "local"})
            );
        }),
    ),
    (
        "The network driver is expected to honor the ip-addressing data supplied by IPAM driver",
        Held(|walk| {
            let v4 = json!([{"AddressSpace": LOCAL, "Pool": "10.95.0.0/24", "Gateway": "10.95.0.9/24", "AuxAddresses": {"router": "10.95.0.3"}}]);
            walk.with_endpoint(&v4, &json!({"Address": "10.95.0.7/24"}), |_| {
                assert_eq!(walk.endpoint("Join", &json!({}))["Gateway"], "10.95.0.9");
            });
        }),
    ),
    (
        "MacAddress and either or both of Address and AddressIPv6 must be given",
        Held(|walk| {
            walk.with_endpoint(&json!([]), &json!({}), |made| {
                let interface = &made["Interface"];
                assert_eq!(interface["Address"], "10.95.0.2/24");
                assert_eq!(interface["AddressIPv6"], "fd00:95::2/64");
                assert!(interface["MacAddress"].is_string());
            });
        }),
    ),
    (
        "If the remote process was supplied a non-empty value in Interface, it must respond with an empty Interface value",
        Held(|walk| {
            let whole = json!({"Address": "10.95.0.7/24", "MacAddress": "02:42:0a:5f:00:07"});
            walk.with_endpoint(&json!([]), &whole, |made| {
                assert_eq!(made, &json!({"Interface": {}}));
            });
        }),
    ),
    (
        "[it must respond with an empty Interface value, also if only addresses are supplied]",
        Not(
            "Docker takes the MAC address that it has not given, and needs it",
            |walk| {
                walk.with_endpoint(&json!([]), &json!({"Address": "10.95.0.7/24"}), |made| {
                    let keys: Vec<&String> =
                        made["Interface"].as_object().unwrap().keys().collect();
                    assert_eq!(keys, ["MacAddress"]);
                });
            },
        ),
    ),
    (
        "It must send a response of the form Value, an arbitrary (possibly empty) map",
        Held(|walk| {
            walk.with_endpoint(&json!([]), &json!({}), |_| {
                assert!(walk.endpoint("EndpointOperInfo", &json!({}))["Value"].is_object());
            });
        }),
    ),
    (
        "SrcName is the name of the OS level interface that the remote process created; DstPrefix is a prefix for the name",
        Held(|walk| {
            walk.with_endpoint(&json!([]), &json!({}), |_| {
                let joined = walk.endpoint("Join", &json!({}));
                let names = &joined["InterfaceName"];
                walk.node.sh(&format!(
                    "ip link show dev {}",
                    names["SrcName"].as_str().unwrap()
                ));
                assert_eq!(names["DstPrefix"], "eth");
                assert_eq!(walk.endpoint("Join", &json!({})), joined);
            });
        }),
    ),
    (
        "Gateway is optional and if supplied is an IP address as a string; GatewayIPv6 is optional",
        Held(|walk| {
            walk.with_endpoint(&json!([]), &json!({}), |_| {
                let joined = walk.endpoint("Join", &json!({}));
                assert_eq!(
                    (&joined["Gateway"], &joined["GatewayIPv6"]),
                    (&json!("10.95.0.1"), &json!("fd00:95::1"))
                );
            });
        }),
    ),
    (
        "Routes are either given a RouteType of 0 and a value for NextHop; or, a RouteType of 1 and no value for NextHop",
        Held(|walk| {
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
        }),
    ),
    (
        "If no gateway and no default static route is set, LibNetwork will add an additional interface (docker_gwbridge)",
        Not(
            "the configuration decides whether there is a default route: the answer has DisableGatewayService",
            |walk| {
                walk.with_endpoint(&json!([]), &json!({}), |_| {
                    assert_eq!(
                        walk.endpoint("Join", &json!({}))["DisableGatewayService"],
                        true
                    );
                });
            },
        ),
    ),
    (
        "Create and delete a network, create and delete an endpoint, Leave: the success response is empty",
        Held(|walk| {
            walk.with_endpoint(&json!([]), &json!({}), |_| ());
        }),
    ),
    (
        "The response [to DiscoverNew and DiscoverDelete] indicating success is empty",
        Held(|walk| {
            for call in ["NetworkDriver.DiscoverNew", "NetworkDriver.DiscoverDelete"] {
                let node = json!({"DiscoveryType": 1, "DiscoveryData": {"Address": "10.0.0.1", "self": true}});
                assert_eq!(walk.call(call, &node), json!({}));
            }
        }),
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
    for (document, table) in [("ipam.md", IPAM), ("remote.md", REMOTE)] {
        for (sentence, verdict) in table {
            let said = match verdict {
                Held(_) => "held".to_owned(),
                Elsewhere(tests) => format!("held: {tests}"),
                Not(reason, _) => format!("not held: {reason}"),
            };
            println!("{document} | {sentence} | {said}");
            if let Held(show) | Not(_, show) = verdict {
                show(&walk);
            }
        }
    }
}
