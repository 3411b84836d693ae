//! Tests of the choice: each refusal, and the choice itself compared with a model.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalogue::Catalogue;
use cni::NetworkConfig;
use ipam::Pool;

const POOLS: &str = r#"{"a":{"subnet":"10.0.0.0/24","routes":[{"dst":"10.0.0.0/8"}],"x":1.50},
    "b":{"ranges":[{"subnet":"fd00::/64"}],"dns":{"nameservers":["fd00::2"]}},"lan":{}}"#;

fn catalogue(pools: &str, rules: &str) -> Catalogue {
    let ipam = format!(r#"{{"pools":{pools},"rules":{rules}}}"#);
    let json = format!(r#"{{"cniVersion":"1.0.0","name":"net","ipam":{ipam}}}"#);
    Catalogue::of(&NetworkConfig::parse(json.into_bytes()).unwrap()).unwrap()
}

fn entries(
    catalogue: &Catalogue,
    facts: &[(&str, &str)],
    requests: &[&str],
) -> Result<Vec<Object>, Error> {
    let facts = facts.iter().copied().collect();
    let requests = requests.iter().map(|ip| RequestedAddress {
        ip: ip.parse().unwrap(),
        source: "CNI_ARGS".to_owned(),
    });
    let rule = catalogue.first_that_holds(&facts)?;
    let mut choice = Choice::for_container(&catalogue.pools, rule, &facts)?;
    choice.request_by_runtime(requests.collect())?;
    choice.entries()
}

fn pools(rules: &str, facts: &[(&str, &str)], requests: &[&str]) -> Result<Value, String> {
    let entries = entries(&catalogue(POOLS, rules), facts, requests);
    let entries = entries.map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(&entries).unwrap())
}

#[test]
fn each_pool_has_its_name_its_keys_and_its_part_of_the_rule() {
    let rules = r#"[{"when":{"A":"1"},"pools":["lan"]},
        {"pools":["b","a"],"ips":["10.0.0.5","fd00::${A}"],"sticky":"k/${A}","owner":"o/${A}"}]"#;
    assert_eq!(
        pools(rules, &[("A", "2f")], &[]),
        Ok(json!([
            {"name": "b", "ranges": [{"subnet": "fd00::/64"}], "requested-ip": "fd00::2f",
             "sticky": "k/2f", "owner": "o/2f", "rule": "ipam.rules[1]"},
            {"name": "a", "subnet": "10.0.0.0/24", "x": 1.5, "exclude": ["10.0.0.5"],
             "requested-ip": "10.0.0.5", "sticky": "k/2f", "owner": "o/2f", "rule": "ipam.rules[1]"},
        ]))
    );
}

#[test]
fn an_array_is_one_entry_with_the_further_pools_behind_or() {
    let rules = r#"[{"when":{"A":"1"},"pools":["a"],"ip":"10.0.0.5"},
        {"pools":[["a","${A}"],"b"],"sticky":"k"}]"#;
    assert_eq!(
        pools(rules, &[("A", "lan")], &["10.0.0.6"]),
        Ok(json!([
            {"name": "a", "subnet": "10.0.0.0/24", "x": 1.5, "exclude": ["10.0.0.5"],
             "routes": [{"dst": "10.0.0.0/8"}], "or": [{"name": "lan", "exclude": ["10.0.0.5"]}],
             "requested-ip": "10.0.0.6", "sticky": "k", "rule": "ipam.rules[1]"},
            {"name": "b", "ranges": [{"subnet": "fd00::/64"}], "sticky": "k", "rule": "ipam.rules[1]"},
        ]))
    );
    // It may be an address of the pool that only a later delegate knows.
    let requested = pools(rules, &[("A", "lan")], &["192.0.2.1"]).unwrap();
    assert_eq!(requested[0]["requested-ip"], "192.0.2.1");
    // Routes and DNS of the pool that is chosen in any case are the selector's.
    let catalogue = catalogue(POOLS, rules);
    let facts = [("A", "lan")].into_iter().collect();
    let rule = catalogue.first_that_holds(&facts).unwrap();
    let choice = Choice::for_container(&catalogue.pools, rule, &facts).unwrap();
    let certain: Vec<&str> = choice
        .certain_pools()
        .map(|pool| pool.name.as_str())
        .collect();
    assert_eq!(certain, ["b"]);
}

#[test]
fn a_replica_gets_the_address_of_its_number_and_nobody_else_one_of_the_range() {
    let rules = r#"[{"when":{"N":"db-*"},"pools":["a","b"],"ips":[
            {"range":"10.0.0.20-10.0.0.29","index":"${N}"},{"range":"fd00::20-fd00::29","index":"${N}"}]},
        {"pools":["a"]}]"#;
    let of = |name: &str, requests: &[&str]| pools(rules, &[("N", name)], requests);
    let replica = of("db-3", &[]).unwrap();
    assert_eq!(replica[0]["requested-ip"], "10.0.0.23");
    assert_eq!(replica[1]["requested-ip"], "fd00::23");
    assert_eq!(replica[0]["exclude"], json!(["10.0.0.20-10.0.0.29"]));
    assert_eq!(of("web", &[]).unwrap()[0]["exclude"], replica[0]["exclude"]);
    let refused = |name: &str, requests: &[&str]| of(name, requests).unwrap_err();
    let pinned = refused("web", &["10.0.0.23"]);
    assert!(
        pinned.contains("is pinned by another rule (code 111)"),
        "{pinned}"
    );
    let beyond = refused("db-10", &[]);
    assert!(
        beyond.contains(r#"ipam.rules[0].ips[0]: "db-10": number 10 is beyond"#),
        "{beyond}"
    );
    let none = refused("db-x", &[]);
    assert!(
        none.contains(r#""db-x" neither is nor ends in -NUMBER"#),
        "{none}"
    );
}

#[test]
fn what_the_runtime_requests_is_requested_of_the_pool_that_it_lies_in() {
    let rules = r#"[{"pools":["a","b","lan"]}]"#;
    let requested = |requests: &[&str]| {
        let pools = pools(rules, &[], requests).unwrap();
        let ip = |i: usize| pools[i]["requested-ip"].as_str().map(str::to_owned);
        [ip(0), ip(1), ip(2)].map(Option::unwrap_or_default)
    };
    assert_eq!(
        requested(&["fd00::5", "::ffff:10.0.0.5"]),
        ["10.0.0.5", "fd00::5", ""]
    );
    // Only a later delegate knows the addresses of a pool without ranges.
    assert_eq!(requested(&["192.0.2.1"]), ["", "", "192.0.2.1"]);
}

#[test]
fn each_refusal_names_the_rule_and_the_value() {
    let few = [("A", "x"), ("ifname", "eth0")];
    for (rules, message) in [
        (
            "[]",
            "ipam.rules is missing or empty, and ipam.poolsDir has no rule: no pool is chosen",
        ),
        (
            r#"[{"when":{"A":"1"},"pools":["a"]}]"#,
            "no rule of ipam.rules and ipam.poolsDir holds for A=\"x\", ifname=\"eth0\"",
        ),
        (
            r#"[{"pools":["${B}"]}]"#,
            "ipam.rules[0].pools[0]: the fact B is missing; there are A=\"x\", ifname=\"eth0\"",
        ),
    ] {
        let refused = pools(rules, &few, &[]).unwrap_err();
        assert_eq!(
            refused.lines().next(),
            Some(&*format!("{message} (code 7)"))
        );
    }
    let pinned = json!([{"when": {"A": "1"}, "pools": ["a"], "ip": "10.0.0.5"}, {"pools": ["a"]}]);
    let pinned_of_lan = json!({"when": {"A": "1"}, "pools": ["lan"], "ip": "192.0.2.5"});
    // The rules, what the runtime requests, and the message.
    let refused = json!([
        [[{"pools": ["${A}"]}], "",
         "ipam.rules[0].pools[0]: there is no pool \"x\" in ipam.pools, and no ipam.poolsDir (code 7)"],
        [[{"pools": ["a"], "ip": "${A}"}], "", "ipam.rules[0].ip: \"x\" is no IP address (code 7)"],
        [[{"pools": ["a"], "ip": "10.0.1.${ifname}"}], "",
         "ipam.rules[0].ip: \"10.0.1.eth0\" is no IP address (code 7)"],
        [[{"pools": ["a", "b"], "ips": ["10.0.0.5", "10.0.0.${B}"]}], "",
         "ipam.rules[0].ips[1]: 10.0.0.1 is the gateway of 10.0.0.0/24 (code 7)"],
        [[{"pools": ["a", "b"], "ips": ["10.0.0.5", "10.0.0.${B}2"]}], "",
         "ipam.rules[0].ips[1]: 10.0.0.12 is in pool a, of which ipam.rules[0].ips[0] requests 10.0.0.5 (code 7)"],
        [[{"pools": ["b", "${C}"]}], "",
         "ipam.rules[0].pools[1]: the pool \"b\" is chosen twice (code 7)"],
        [[{"pools": ["a"]}], "10.0.0.1", "CNI_ARGS: 10.0.0.1 is the gateway of 10.0.0.0/24 (code 7)"],
        [[{"pools": ["a"], "ip": "10.0.0.5"}], "10.0.0.6",
         "CNI_ARGS: 10.0.0.6 is in pool a, of which ipam.rules[0].ip requests 10.0.0.5 (code 7)"],
        [pinned, "10.0.0.5", "CNI_ARGS: 10.0.0.5 of pool a is pinned by another rule (code 111)"],
        [pinned, "10.9.0.5",
         "CNI_ARGS: 10.9.0.5 is in none of the pools of ipam.rules[1] (code 7)"],
        [[{"pools": ["lan"], "ip": "10.8.0.5"}], "10.9.0.5",
         "CNI_ARGS: 10.9.0.5 is in none of the pools of ipam.rules[0]; of pool lan, ipam.rules[0].ip requests 10.8.0.5 (code 7)"],
        [[pinned_of_lan, {"pools": ["lan"]}], "192.0.2.5",
         "CNI_ARGS: 192.0.2.5 of pool lan is pinned by another rule (code 111)"],
        [[pinned_of_lan, {"pools": ["lan"], "ip": "192.0.2.${five}"}], "",
         "ipam.rules[1].ip: 192.0.2.5 of pool lan is pinned by another rule (code 111)"],
    ]);
    let many = [few[0], few[1], ("B", "1"), ("C", "b"), ("five", "5")];
    for row in refused.as_array().unwrap() {
        let requests: Vec<&str> = row[1]
            .as_str()
            .into_iter()
            .filter(|ip| !ip.is_empty())
            .collect();
        let refused = pools(&row[0].to_string(), &many, &requests).unwrap_err();
        assert_eq!(refused.lines().next(), row[2].as_str());
    }
    let same = r#"[{"pools":["a"],"ip":"10.0.0.5"}]"#;
    assert!(pools(same, &[], &["10.0.0.5"]).is_ok());
}

/// True if a condition of the model holds.
fn holds(condition: &Value, fact: Option<&str>) -> bool {
    match condition {
        Value::Null => fact.is_none(),
        Value::Array(all) => all.iter().any(|condition| holds(condition, fact)),
        Value::Object(not) => !holds(&not["not"], fact),
        pattern => fact.is_some_and(|fact| like(pattern.as_str().unwrap(), fact)),
    }
}

/// True if a text matches a pattern, character by character.
fn like(pattern: &str, text: &str) -> bool {
    let mut characters = pattern.chars();
    match (characters.next(), text.chars().next()) {
        (None, first) => first.is_none(),
        (Some('*'), first) => {
            like(characters.as_str(), text)
                || first.is_some_and(|c| like(pattern, &text[c.len_utf8()..]))
        }
        (Some('?'), Some(c)) => like(characters.as_str(), &text[c.len_utf8()..]),
        (Some(p), Some(c)) => p == c && like(characters.as_str(), &text[c.len_utf8()..]),
        (Some(_), None) => false,
    }
}

fn conditions() -> impl Strategy<Value = Value> {
    let text = "[ab?*]{0,4}".prop_map(Value::from);
    let leaf = prop_oneof![4 => text, 1 => Just(Value::Null)];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..3).prop_map(Value::from),
            inner.prop_map(|condition| json!({"not": condition})),
        ]
    })
}

proptest! {
    #[test]
    fn the_first_rule_that_holds_decides(
        rules in proptest::collection::vec(
            (proptest::collection::btree_map("[AB]|label:c", conditions(), 1..3), 0usize..4),
            0..6,
        ),
        facts in proptest::collection::btree_map("[AB]|label:c", "[abc]{0,4}", 0..4),
    ) {
        let pools: Value = (0..4).map(|i| (format!("p{i}"), json!({}))).collect();
        let written: Value = rules
            .iter()
            .map(|(when, pool)| json!({"when": when, "pools": [format!("p{pool}")]}))
            .collect();
        let catalogue = catalogue(&pools.to_string(), &written.to_string());
        let given: Vec<(&str, &str)> = facts.iter().map(|(k, v)| (&**k, &**v)).collect();
        let entries = entries(&catalogue, &given, &[]);
        let expected = rules.iter().position(|(when, _)| {
            when.iter().all(|(name, condition)| holds(condition, facts.get(name).map(String::as_str)))
        });
        let expected = expected.map(|at| {
            format!(r#"[{{"name":"p{}","rule":"ipam.rules[{at}]"}}]"#, rules[at].1)
        });
        let chosen = entries.ok().map(|entries| serde_json::to_string(&entries).unwrap());
        prop_assert_eq!(chosen, expected);
    }

    #[test]
    fn a_pinned_address_is_given_to_its_rule_alone(
        pinned in proptest::collection::btree_map("[a-f]", 2u8..250, 1..6),
        who in "[a-h]",
        requested in 2u8..250,
    ) {
        let mut rules: Vec<Value> = pinned
            .iter()
            .map(|(name, last)| json!({"when": {"A": name}, "pools": ["a"], "ip": format!("10.0.0.{last}")}))
            .collect();
        rules.push(json!({"pools": ["a"]}));
        let facts = [("A", who.as_str())];
        let rules = Value::from(rules).to_string();
        let entry = pools(&rules, &facts, &[]).unwrap()[0].clone();
        let pool = Pool::read("pool", serde_json::from_value(entry).unwrap()).unwrap();
        let own = pinned.get(&who).map(|last| IpAddr::from([10, 0, 0, *last]));
        prop_assert_eq!(pool.requested, own);
        for last in pinned.values() {
            let ip = IpAddr::from([10, 0, 0, *last]);
            let mut given = pool.ranges.ranges().iter().flat_map(|range| range.given());
            prop_assert!(!given.any(|interval| interval.contains(ip)));
        }
        let refused = pools(&rules, &facts, &[&format!("10.0.0.{requested}")]).is_err();
        let is_own = own == Some(IpAddr::from([10, 0, 0, requested]));
        let may = own.is_none() && !pinned.values().any(|last| *last == requested);
        prop_assert_eq!(refused, !(is_own || may));
    }
}
