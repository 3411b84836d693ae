//! The pools of each rule, for STATUS, which has no container.

use cni::{Call, DelegateName, Error, NetworkConfig, Object};
use ipam::{Facts, LONGEST_STICKY_KEY, RequestedAddress};

use crate::catalogue::Catalogue;
use crate::choice::Choice;
use crate::pool::CataloguePool;
use crate::rule::Rule;
use crate::template::Template;

/// The facts that all containers of a network have in common on a node, unless a delegate finds others.
const COMMON: [&str; 2] = ["network", "node"];

/// The pools that each rule may lead to: those whose names have no fact of a container, and, if
/// others have one, each pool that it may name.
///
/// # Errors
///
/// Code 7 if no rule can hold on this node and lead to pools, or the call's labels or requested
/// addresses, which each ADD has, are refused.
pub(crate) fn alternatives(
    catalogue: &Catalogue,
    call: &Call<'_>,
) -> Result<Vec<Vec<Object>>, Error> {
    let facts = Facts::of(call)?;
    let delegates = ipam::delegates(&call.config)?;
    let finds_others = delegates.iter().any(DelegateName::finds_facts);
    let common = COMMON.iter().filter(|_| !finds_others);
    let known: Facts = common
        .filter_map(|name| Some((*name, facts.get(name)?)))
        .collect();
    let requests = ipam::requests(call)?;
    let mut all = Vec::new();
    let mut errors = Vec::new();
    for rule in &catalogue.rules {
        let holds = rule.holds_for_any(&known);
        if holds == Some(false) {
            continue;
        }
        match of_rule(catalogue, rule, &known, &requests, &call.config) {
            Ok(some) => all.extend(some),
            Err(error) => errors.push(error),
        }
        if holds == Some(true) {
            // No later rule is reached.
            break;
        }
    }
    if all.is_empty() {
        Error::all_as_one(errors)?;
        catalogue.first_that_holds(&known)?;
    }
    Ok(all)
}

fn of_rule(
    catalogue: &Catalogue,
    rule: &Rule,
    known: &Facts,
    requests: &[RequestedAddress],
    config: &NetworkConfig,
) -> Result<Vec<Vec<Object>>, Error> {
    let is_known = |template: &Template| template.expand(known).is_ok();
    let never = |key: &str, why: &str| Err(Error::config(format!("{}.{key}: {why}", rule.path)));
    for (key, template) in [("sticky", &rule.sticky), ("owner", &rule.owner)] {
        let is_longer = |text: &Template| text.shortest() > LONGEST_STICKY_KEY;
        if template.as_ref().is_some_and(is_longer) {
            let why = format!("it is longer than {LONGEST_STICKY_KEY} bytes");
            return never(key, &why);
        }
    }
    let mut choice = Choice::for_any_container(&catalogue.pools, rule, known)?;
    choice.refuse_missing_gateways(config)?;
    // An address that depends on the container may be the requested one.
    if rule.ips.iter().all(|(_, ip)| is_known(ip.template())) {
        choice.request_by_runtime(requests.to_vec())?;
    }
    let mut certain = choice.entries()?;
    // A fact may be an address that is excluded for all others.
    if rule.ips.iter().any(|(_, requested)| !requested.is_pin()) {
        certain.iter_mut().for_each(|entry| entry.remove("exclude"));
    }
    let mut alternatives = Vec::new();
    for names in rule.pools() {
        // Of an array, one pool is enough.
        if names.iter().any(|(_, template)| is_known(template)) {
            continue;
        }
        let Some((key, template)) = names.first() else {
            continue;
        };
        let chosen = |pool: &CataloguePool| choice.pools().any(|other| other.name == pool.name);
        let named = catalogue
            .pools
            .pools
            .iter()
            .filter(|pool| template.may_be(pool.name.as_str()));
        let named: Vec<&CataloguePool> = named.filter(|pool| !chosen(pool)).collect();
        if named.is_empty() {
            return never(&key.to_string(), "no further pool has such a name");
        }
        for pool in named {
            let mut entry = pool.entry(&[])?;
            entry.remove("exclude");
            alternatives.push([&certain[..], &[entry]].concat());
        }
    }
    if alternatives.is_empty() {
        alternatives.push(certain);
    }
    Ok(alternatives)
}

#[cfg(test)]
mod tests {
    use cni::Environment;

    use super::*;

    fn read(ipam: &str, args: &str) -> Result<Vec<Vec<Object>>, Error> {
        let json = format!(
            r#"{{"cniVersion":"1.1.0","name":"net","ipam":{ipam},"args":{{"cni":{args}}}}}"#
        );
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let environment = Environment::default();
        alternatives(
            &Catalogue::of(&config).unwrap(),
            &Call::new(config, &environment),
        )
    }

    /// The names of the pools of each alternative.
    fn of(rules: &str) -> Result<Vec<String>, String> {
        let pools = r#"{"web":{"subnet":"10.0.0.0/24"},"db":{"subnet":"10.0.1.0/24"},"lan":{}}"#;
        let ipam = format!(r#"{{"pools":{pools},"rules":[{rules}],"node":"db"}}"#);
        let all = read(&ipam, "{}").map_err(|error| error.msg)?;
        let name = |entry: &Object| entry.read::<String>("", "name").unwrap().unwrap();
        let names = |entries: &Vec<Object>| entries.iter().map(name).collect::<Vec<_>>().join("+");
        Ok(all.iter().map(names).collect())
    }

    #[test]
    fn each_rule_and_each_pool_that_a_fact_may_name_is_an_alternative() {
        let rules = r#"{"when":{"A":"1"},"pools":["web","lan"]},{"pools":["db","${A}"]}"#;
        assert_eq!(of(rules).unwrap(), ["web+lan", "db+web", "db+lan"]);
        assert_eq!(of(r#"{"pools":["${A}b"]}"#).unwrap(), ["web", "db"]);
    }

    #[test]
    fn a_rule_that_can_choose_for_nobody_is_no_alternative() {
        let long = "x".repeat(LONGEST_STICKY_KEY + 1);
        let sticky = format!(r#"{{"when":{{"A":"1"}},"pools":["web"],"sticky":"${{A}}{long}"}}"#);
        let unknown = r#"{"pools":["x-${A}"]}"#;
        let refused = of(&format!("{sticky},{unknown}")).unwrap_err();
        assert!(
            refused.contains("rules[0].sticky: it is longer"),
            "{refused}"
        );
        assert!(
            refused.contains("rules[1].pools[0]: no further pool"),
            "{refused}"
        );
        assert_eq!(
            of(&format!(r#"{sticky},{{"pools":["db"]}}"#)).unwrap(),
            ["db"]
        );
        assert!(of("").unwrap_err().contains("ipam.rules is missing"));
    }

    #[test]
    fn what_a_fact_may_request_is_not_excluded() {
        let is_excluded = |ip: &str| {
            let pool = r#"{"web":{"subnet":"10.0.0.0/24","exclude":["10.0.0.0/24"]}}"#;
            let ipam = format!(r#"{{"pools":{pool},"rules":[{{"pools":["web"],"ip":"{ip}"}}]}}"#);
            read(&ipam, "{}").unwrap()[0][0].get("exclude").is_some()
        };
        assert_eq!(
            (is_excluded("${IP}"), is_excluded("10.0.0.9")),
            (false, true)
        );
    }

    #[test]
    fn a_rule_that_can_not_hold_on_this_node_is_no_alternative() {
        for (never, because) in [
            (
                r#""when":{"node":"d?c"},"pools":["web"]"#,
                "holds for network=\"net\"",
            ),
            (r#""when":{"network":"x"},"pools":["web"]"#, "holds for"),
            (
                r#""when":{"node":null,"A":"x"},"pools":["web"]"#,
                "holds for",
            ),
            (r#""when":{"A":[]},"pools":["web"]"#, "holds for"),
            (
                r#""when":{"A":[[],{"not":{"not":[]}}]},"pools":["web"]"#,
                "holds for",
            ),
            (r#""pools":["${network}"]"#, "no pool \"net\""),
            (
                r#""pools":["${node}"],"ip":"${network}""#,
                "\"net\" is no IP",
            ),
        ] {
            let refused = of(&format!("{{{never}}}")).unwrap_err();
            assert!(refused.contains(because), "{never}: {refused}");
        }
        let rules = r#"{"when":{"node":"a"},"pools":["web"]},{"when":{"A":{"not":"x"}},"pools":["lan"]},
            {"when":{"node":"d*","B":{"not":[]}},"pools":["${node}"]},{"when":{"A":"x"},"pools":["web"]}"#;
        assert_eq!(of(rules).unwrap(), ["lan", "db"]);
    }

    #[test]
    fn a_delegate_that_finds_facts_may_find_another_name_of_the_node() {
        let rules = r#"[{"when":{"node":"other"},"pools":["web"]},{"pools":["${node}"]}]"#;
        let with = |delegates: &str| {
            let pools = r#"{"web":{"subnet":"10.0.0.0/24"},"other":{"subnet":"10.0.1.0/24"}}"#;
            let chain = format!(r#""delegates":["{delegates}"],"node":"n1""#);
            let all = read(
                &format!(r#"{{{chain},"pools":{pools},"rules":{rules}}}"#),
                "{}",
            );
            all.map(|all| all.len()).map_err(|error| error.msg)
        };
        assert!(
            with("ipam-ds-rules")
                .unwrap_err()
                .contains("no pool \"n1\"")
        );
        assert_eq!(with(r#"ipam-df-node","ipam-ds-rules"#), Ok(3));
    }

    #[test]
    fn what_the_configuration_requests_of_each_add_is_requested_of_each_alternative() {
        let with = |args: &str| {
            let pool = r#"{"web":{"subnet":"10.0.0.0/24"}}"#;
            let rules = r#"[{"when":{"A":"1"},"pools":["web"]},{"pools":["web"]}]"#;
            let all = read(&format!(r#"{{"pools":{pool},"rules":{rules}}}"#), args);
            all.map_err(|error| error.msg)
        };
        for all in with(r#"{"ips":["10.0.0.9"]}"#).unwrap() {
            assert_eq!(
                all[0].read("", "requested-ip"),
                Ok(Some("10.0.0.9".to_owned()))
            );
        }
        for (args, because) in [
            (r#"{"ips":["10.9.9.9"]}"#, "in none of the pools"),
            (r#"{"ips":["bad"]}"#, "args.cni.ips[0]: \"bad\""),
            (r#"{"labels":[{"key":"a"}]}"#, "labels[0].value is missing"),
        ] {
            let refused = with(args).unwrap_err();
            assert!(refused.contains(because), "{args}: {refused}");
        }
    }
}
