//! Fuzz target of `CNI_ARGS`.

use std::net::IpAddr;

use bolero::{TypeGenerator, check};
use cni::{Args, code};
use fuzz::{Sandbox, TEST_TIME, Text, Variables, call};

/// A value of the variable.
#[derive(Clone, Debug, TypeGenerator)]
struct Input(Text);

const SEEDS: &[&str] = &[
    "",
    "IP=10.0.0.3",
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p",
    "IP=10.0.0.3/29;IgnoreUnknown=false;IP=10.0.0.4",
];

/// The pairs, by the letter of the convention: `;` between pairs, one `=` in each.
fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut all = Vec::new();
    let mut rest = Some(text).filter(|text| !text.is_empty());
    while let Some(text) = rest {
        let pair = match text.find(';') {
            Some(end) => {
                rest = Some(&text[end + 1..]);
                &text[..end]
            }
            None => {
                rest = None;
                text
            }
        };
        let at = pair.find('=')?;
        if pair.matches('=').count() != 1 {
            return None;
        }
        all.push((&pair[..at], &pair[at + 1..]));
    }
    Some(all)
}

#[test]
fn pairs_are_read_by_the_letter_or_refused_with_code_4() {
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|Input(text): &Input| {
            let text = text.of(SEEDS);
            let Some(text) = text.to_str() else { return };
            match (Args::parse(text), pairs(text)) {
                (Ok(args), Some(pairs)) => {
                    for (key, _) in &pairs {
                        let last = pairs.iter().rfind(|(k, _)| k == key);
                        assert_eq!(args.get(key), last.map(|(_, value)| *value));
                    }
                    assert_eq!(args.get("not there"), None);
                }
                (Err(error), None) => assert_eq!(error.code, code::INVALID_ENVIRONMENT),
                (parsed, expected) => panic!("{text:?}: {parsed:?}, not {expected:?}"),
            }
        });
}

#[test]
fn the_selector_requests_what_they_say_or_refuses_them() {
    let config =
        br#"{"cniVersion":"1.0.0","name":"n","ipam":{"ranges":[[{"subnet":"10.0.0.0/29"}]]}}"#;
    let sandbox = Sandbox::new();
    let add = Variables::new("ADD", &sandbox.plugins());
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|Input(text): &Input| {
            let text = text.of(SEEDS);
            let variables = add.clone().with("CNI_ARGS", &text);
            let outcome = call(&ipam_ds_ranges::IpamDsRanges, &variables, config);
            let pairs = text.to_str().and_then(pairs);
            match outcome.result() {
                Some(result) => {
                    let pairs = pairs.expect("a success only with pairs");
                    let asked = pairs.iter().rfind(|(key, _)| *key == "IP");
                    let asked = asked.map(|(_, ip)| *ip).filter(|ip| !ip.is_empty());
                    let ip = asked.map(|ip| ip.split('/').next().unwrap_or_default());
                    let requested = result["pools"][0]["requested-ip"].as_str();
                    // Another spelling is the same address.
                    let address =
                        |text: &str| text.parse().ok().map(|ip: IpAddr| ip.to_canonical());
                    assert_eq!(requested.map(address), ip.map(address), "{text:?}");
                }
                None if pairs.is_none() => assert_eq!(outcome.code(), Some(4), "{text:?}"),
                None => assert!(matches!(outcome.code(), Some(4 | 7)), "{text:?}"),
            }
        });
}
