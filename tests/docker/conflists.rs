//! Docker networks with a network configuration: they share pools with CNI networks.

use std::collections::BTreeSet;
use std::fs;

use harness::{DockerDaemon, Sandbox, assert_has, names, needs};
use serde_json::{Value, json};

/// A sandbox with a network configuration of this name and `ipam` section.
fn sandbox(name: &str, ipam: &Value) -> (Sandbox, Value) {
    let sandbox = Sandbox::default().with_reference("host-local");
    fs::create_dir(sandbox.conf_dir()).unwrap();
    let mut ipam = ipam.clone();
    for (key, value) in [
        ("dataDir", sandbox.data_dir()),
        ("stateDir", sandbox.state_dir()),
    ] {
        ipam[key] = json!(value);
    }
    let plugin = json!({"type": "bridge", "bridge": "test0", "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]});
    fs::write(sandbox.conf_dir().join("10.conflist"), list.to_string()).unwrap();
    let config = json!({"cniVersion": "1.0.0", "name": name, "type": "bridge", "ipam": ipam});
    (sandbox, config)
}

/// All reserved addresses of the named pools.
fn reserved(sandbox: &Sandbox) -> Vec<String> {
    let directories = names(sandbox.data_dir()).into_iter();
    let mut reserved: Vec<String> = directories
        .flat_map(|name| sandbox.reserved(&name))
        .collect();
    reserved.sort();
    reserved
}

fn chain(selector: &str, rest: Value) -> Value {
    let mut ipam = rest;
    ipam["type"] = json!("ipam-delegated");
    ipam["delegates"] = json!([selector, "ipam-da-host-local"]);
    ipam
}

fn on(conflist: &str) -> Value {
    json!({"conflist": conflist})
}

#[test]
fn a_docker_and_a_cni_network_on_one_pool_never_share_an_address() {
    needs!("host-local");
    let ranges = || json!({"ranges": [[{"subnet": "10.9.0.0/26"}]]});
    let mut host_local = ranges();
    host_local["type"] = json!("host-local");
    for (ipam, plugin) in [
        (chain("ipam-ds-ranges", ranges()), "ipam-delegated"),
        (host_local, "host-local"),
    ] {
        let (sandbox, config) = sandbox("web", &ipam);
        let daemon = DockerDaemon::start(&sandbox, &[]);
        let pool = daemon.pool("", &on("web"));
        let call = |command: &str, i: usize| {
            sandbox
                .call(plugin, command, &config)
                .container(&format!("c{i}"))
        };
        let mut given = BTreeSet::new();
        let mut of_docker = Vec::new();
        for i in 0..30 {
            let by_docker = daemon.address(&pool, "");
            let by_cni = call("ADD", i).run().ips().remove(0);
            of_docker.push(by_docker.clone());
            assert!(given.insert(by_docker) && given.insert(by_cni));
        }
        assert_eq!(sandbox.reserved("web").len(), 60);
        let pools = sandbox.ipamctl(&["pools", "--json"]).run().stdout;
        let pools: Vec<Value> = serde_json::from_str(&pools).unwrap();
        assert_eq!(pools.len(), 1, "{pools:?}");
        // The last address is Docker's or the CNI network's; then the pool is full.
        of_docker.push(daemon.address(&pool, ""));
        let full = daemon.no_address(&pool, "");
        assert!(full.contains("all 61 are reserved"), "{full}");
        assert!(!call("ADD", 99).run().status.success());
        // Neither releases the other's address.
        let mut valid = config.clone();
        valid["cni.dev/valid-attachments"] = json!([]);
        let gc = sandbox.call("ipam-delegated", "GC", &as_chain(&valid));
        gc.run().ends(0);
        let left = sandbox.reservations("web");
        assert_eq!(left.len(), 31, "{left:?}");
        assert!(
            left.iter()
                .all(|(_, holder)| holder.ends_with("\r\ndocker-web"))
        );
        for ip in of_docker {
            daemon.release(&pool, &ip);
        }
        assert_eq!(sandbox.reserved("web"), [""; 0]);
    }
}

/// The configuration as a chain: `host-local` has no GC.
fn as_chain(config: &Value) -> Value {
    let mut config = config.clone();
    config["cniVersion"] = json!("1.1.0");
    config["ipam"]["type"] = json!("ipam-delegated");
    config["ipam"]["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local"]);
    config
}

#[test]
fn rules_choose_by_the_networks_options_and_each_family_is_a_pool() {
    let rules = json!({
        "pools": {
            "shop": {"subnet": "10.9.1.0/24", "gateway": "10.9.1.254", "exclude": ["10.9.1.1-10.9.1.9"]},
            "shop6": {"subnet": "fd00:9::/64"},
            "lab": {"subnet": "10.9.2.0/24"}},
        "rules": [
            {"when": {"team": "shop", "name": "db"}, "pools": ["shop", "shop6"], "ip": "10.9.1.7"},
            {"when": {"team": "shop"}, "pools": ["shop", "shop6"]},
            {"when": {"team": "lab"}, "pools": ["lab"]}]});
    let (sandbox, config) = sandbox("web", &chain("ipam-ds-rules", rules));
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let shop = json!({"conflist": "web", "team": "shop"});
    let v4 = daemon.pool("", &shop);
    let body = json!({"AddressSpace": "ipam-delegated-local", "Options": shop, "V6": true});
    let v6 = daemon.ok("/IpamDriver.RequestPool", &body);
    let v6 = v6["PoolID"].as_str().unwrap().to_owned();
    let lab = daemon.pool("", &json!({"conflist": "web", "team": "lab"}));
    for (pool, subnet) in [
        (&v4, "10.9.1.0/24"),
        (&v6, "fd00:9::/64"),
        (&lab, "10.9.2.0/24"),
    ] {
        let id: Value = serde_json::from_str(pool).unwrap();
        assert_eq!(id["subnet"], subnet);
    }
    let request = |pool: &str, name: &str| {
        let options = json!({"com.docker.network.endpoint.name": name});
        let body = json!({"PoolID": pool, "Address": "", "Options": options});
        daemon.ok("/IpamDriver.RequestAddress", &body)["Address"].clone()
    };
    assert_eq!(request(&v4, "web"), "10.9.1.10/24");
    assert_eq!(request(&v4, "db"), "10.9.1.7/24");
    assert_eq!(request(&v6, "web"), "fd00:9::2/64");
    assert_eq!(request(&lab, "web"), "10.9.2.2/24");
    // One address of one pool each, in the directory that CNI networks of the pool share.
    assert_eq!(
        reserved(&sandbox),
        ["10.9.1.10", "10.9.1.7", "10.9.2.2", "fd00:9::2"]
    );
    let by_cni = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("CNI_ARGS", "IgnoreUnknown=1;team=shop");
    assert_eq!(by_cni.run().ips()[0], "10.9.1.11");
    assert_eq!(daemon.gateway(&v4, "")["Address"], "10.9.1.254/24");
    let given = [
        (&v4, "10.9.1.10"),
        (&v4, "10.9.1.7"),
        (&v6, "fd00:9::2"),
        (&lab, "10.9.2.2"),
    ];
    for (pool, ip) in given {
        daemon.release(pool, ip);
    }
    assert_eq!(sandbox.records("docker-web"), [""; 0]);
    // The CNI container's.
    assert_eq!(reserved(&sandbox).len(), 2);
    let refused = daemon.no_pool("", &on("web"));
    assert!(refused.starts_with("ipam-ds-rules:"), "{refused}");
}

#[test]
fn a_pool_without_a_gateway_is_refused_by_name_if_docker_needs_one() {
    let ranges = json!({"ranges": [[{"subnet": "10.9.0.0/29", "gateway": "none"}]]});
    let (sandbox, _) = sandbox("flat", &chain("ipam-ds-ranges", ranges));
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("", &on("flat"));
    let refused = daemon.gateway(&pool, "");
    let why = "conflist flat has the gateway \"none\", and Docker needs one";
    assert_has(refused["Err"].as_str().unwrap(), [why]);
    // Docker asks for none for an internal network, and a person may choose one.
    assert_eq!(daemon.address(&pool, ""), "10.9.0.1");
    assert_eq!(daemon.gateway(&pool, "10.9.0.6")["Address"], "10.9.0.6/29");
}

#[test]
fn a_subnet_of_dockers_goes_into_the_chain_or_is_one_that_it_has() {
    let ranges = json!({"ranges": [[{"subnet": "10.9.0.0/16", "rangeStart": "10.9.3.0"}]]});
    let (sandbox, _) = sandbox("web", &chain("ipam-ds-ranges", ranges));
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let request = |subnet: &str, range: &str| {
        let body = json!({"AddressSpace": "ipam-delegated-local", "Pool": subnet, "SubPool": range, "Options": on("web")});
        daemon.call("/IpamDriver.RequestPool", &body).body
    };
    let own = request("10.9.0.0/16", "10.9.7.0/24");
    assert_eq!(
        daemon.address(own["PoolID"].as_str().unwrap(), ""),
        "10.9.7.0"
    );
    // The configuration's range starts after it.
    let outside = request("10.9.0.0/16", "10.9.2.0/24");
    let said = outside["Err"].as_str().unwrap();
    assert!(
        said.starts_with(
            "SubPool: 10.9.2.0/24 has no address that can be given: the Pool gives 10.9.3.0-"
        ),
        "{said}"
    );
    let other = request("10.20.0.0/24", "");
    let other = other["PoolID"].as_str().unwrap();
    assert_eq!(daemon.address(other, ""), "10.20.0.2");
    assert_eq!(daemon.address(other, "10.20.0.77"), "10.20.0.77");
    assert_eq!(sandbox.reserved("web").len(), 3);
    // Two ranges of one configuration must not overlap.
    let refused = request("10.9.4.0/24", "");
    assert_has(refused["Err"].as_str().unwrap(), ["overlaps"]);
}

#[test]
fn a_subnet_that_no_rule_leads_to_is_refused_with_those_that_are_chosen() {
    let rules = json!({"pools": {"a": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["a"]}]});
    let (sandbox, _) = sandbox("web", &chain("ipam-ds-rules", rules));
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let refused = daemon.no_pool("10.9.4.0/24", &on("web"));
    let expected = "conflist web has no pool of 10.9.4.0/24; it chooses 10.1.0.0/24";
    assert_eq!(refused, expected);
}

#[test]
fn a_change_of_the_configuration_reaches_the_pools_that_name_it() {
    let ranges = |last: &str| {
        let range = json!({"subnet": "10.9.0.0/24", "rangeStart": "10.9.0.2", "rangeEnd": last});
        chain("ipam-ds-ranges", json!({"ranges": [[range]]}))
    };
    let (sandbox, _) = sandbox("web", &ranges("10.9.0.2"));
    let file = sandbox.conf_dir().join("10.conflist");
    let edit = |ipam: &Value| {
        let mut list: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for (key, value) in ipam.as_object().unwrap() {
            list["plugins"][0]["ipam"][key] = value.clone();
        }
        fs::write(&file, list.to_string()).unwrap();
    };
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("", &on("web"));
    assert_eq!(pool, r#"{"subnet":"10.9.0.0/24","conflist":"web"}"#);
    // The requested subnet is the same pool.
    assert_eq!(daemon.pool("10.9.0.0/24", &on("web")), pool);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    daemon.no_address(&pool, "");
    edit(&ranges("10.9.0.9"));
    assert_eq!(daemon.address(&pool, ""), "10.9.0.3");
    assert_eq!(daemon.pool("", &on("web")), pool);
    // The ID that an earlier version made is of the same pool.
    let section = json!({"type": "host-local", "subnet": "10.9.0.0/24"});
    let copy = json!({"name": "web", "cniVersion": "1.0.0", "ipam": section,
        "isGiven": false, "gateway": "10.9.0.1"});
    let earlier = json!({"id": "0a", "subnet": "10.9.0.0/24", "conflist": copy}).to_string();
    assert_eq!(daemon.address(&earlier, ""), "10.9.0.4");
    daemon.release(&earlier, "10.9.0.4");
    // A release goes by the record, whatever the configuration is.
    edit(&json!({"type": "host-local", "delegates": null}));
    daemon.release(&pool, "10.9.0.3");
    fs::write(&file, "{").unwrap();
    let refused = daemon.no_address(&pool, "");
    assert!(refused.contains("10.conflist: EOF"), "{refused}");
    fs::remove_file(&file).unwrap();
    daemon.release(&pool, "10.9.0.2");
    assert_eq!(sandbox.reserved("web"), [""; 0]);
    assert_eq!(sandbox.records("docker-web"), [""; 0]);
}

#[test]
fn an_allocator_without_a_selector_needs_the_subnet() {
    let (sandbox, _) = sandbox(
        "web",
        &json!({"type": "ipam-delegated", "delegates": ["gives"]}),
    );
    let sandbox = sandbox.with_script(
        "gives",
        "[ $CNI_COMMAND = ADD ] || exit 0; echo '{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.9.0.77/24\"}]}'",
    );
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let refused = daemon.no_pool("", &on("web"));
    assert_eq!(
        refused,
        "conflist web chooses no IPv4 pool with a range, but none; give a subnet"
    );
    let pool = daemon.pool("10.9.0.0/24", &on("web"));
    assert_eq!(daemon.address(&pool, ""), "10.9.0.77");
    let other = daemon.pool("10.10.0.0/24", &on("web"));
    let refused = daemon.no_address(&other, "");
    assert!(
        refused.ends_with("the chain gave no address of it"),
        "{refused}"
    );
    assert_eq!(sandbox.docker_files("addresses").len(), 1);
}
