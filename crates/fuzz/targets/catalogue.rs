//! Fuzz target of catalogues, rules and facts: the network configuration, a file of
//! `poolsDir`, and `CNI_ARGS`.

use std::{fs, iter};

use bolero::TypeGenerator;
use cni::code;
use fuzz::{Bytes, Document, Outcome, Sandbox, call, check, environment};
use ipam::Overflow;
use ipam_ds_rules::IpamDsRules;
use serde_json::Value;

use crate::seeds;

/// A catalogue in two places, and facts.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    config: Document,
    file: Document,
    args: Bytes,
}

const ARGS: &[&str] = &[
    "",
    "A=x",
    "IgnoreUnknown=1;A=web;IP=10.0.0.2",
    "A=x1;label:b=y",
];

#[test]
fn what_is_chosen_are_pools_of_the_catalogue_and_the_same_each_time() {
    check!(Input, |input| {
        let sandbox = Sandbox::default();
        let config = sandbox.confine(input.config.of(&seeds::catalogues()));
        fs::create_dir(sandbox.pools_dir()).unwrap();
        let file = input.file.of(&seeds::pool_files());
        fs::write(sandbox.pools_dir().join("10.json"), file).unwrap();
        let args = input.args.text_of(ARGS);
        let answer = |command: &str| {
            let variables = environment(command, &sandbox.plugins());
            let variables = variables.with("CNI_ARGS", &args);
            call(&IpamDsRules, &variables, &config)
        };
        let added = answer("ADD");
        assert_eq!(answer("ADD"), added);
        if let Outcome::Failure { code, msg, .. } = &added {
            let codes = [
                code::INCOMPATIBLE_VERSION,
                code::INVALID_ENVIRONMENT,
                code::IO,
                code::UNDECODABLE,
                code::INVALID_CONFIG,
                code::REQUESTED_TAKEN,
            ];
            assert!(codes.contains(code) && !msg.is_empty(), "{code}: {msg}");
            return;
        }
        // A catalogue that an ADD can use is sound as a whole.
        let pools = |outcome: &Outcome| outcome.result().map(|mut it| it["pools"].take());
        assert_eq!(pools(&answer("DEL")), pools(&added));
        match answer("STATUS") {
            Outcome::Success(printed) => {
                let printed: Value = serde_json::from_slice(&printed).unwrap();
                assert!(printed["alternatives"].is_array(), "{printed}");
            }
            // Older versions of the specification don't know the command.
            failure => assert_eq!(failure.code(), Some(code::INCOMPATIBLE_VERSION)),
        }
        let Some(Value::Array(pools)) = pools(&added) else {
            return;
        };
        let ours = pools.iter().filter(|pool| pool.get("rule").is_some());
        for pool in ours {
            let or = pool.get("or").and_then(Value::as_array);
            let all = || iter::once(pool).chain(or.into_iter().flatten());
            assert!(all().all(|pool| pool["name"].is_string()), "{pool}");
            let is_ranged = |pool: &Value| {
                let ranges = pool.get("ranges").or(pool.get("subnet"));
                ranges.is_some_and(|value| !value.is_null())
            };
            if all().all(is_ranged) {
                let entry = serde_json::from_value(pool.clone()).unwrap();
                let read = Overflow::read("pool", entry).unwrap();
                assert!(!read.tried().is_empty());
            }
        }
    });
}
