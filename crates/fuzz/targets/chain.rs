//! Fuzz target of the chain, with delegates that answer anything in any way.

mod answers;

use std::net::IpAddr;

use bolero::{TypeGenerator, check};
use fuzz::{Outcome, Sandbox, TEST_TIME};
use serde_json::{Value, json};

use crate::delegates::{self, Answer, NAMES, Script};
use answers::Delegate;

/// The answers of each delegate, and the settings of the chain.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    delegates: [Delegate; 3],
    count: u8,
    merged: bool,
}

/// The delegates that this was asked of, each once, in order.
fn asked(calls: &[String], command: &str) -> Vec<String> {
    let names = calls.iter().filter_map(|call| call.split_once(' '));
    let mut names: Vec<String> = names
        .filter(|(_, it)| *it == command)
        .map(|(name, _)| name.to_owned())
        .collect();
    names.dedup();
    names
}

/// The addresses in what has been printed, if every parser can read it.
fn ips(stdout: &[u8]) -> Option<Vec<IpAddr>> {
    let result: Value = serde_json::from_slice(stdout).ok()?;
    let ips = result["ips"].as_array().into_iter().flatten();
    ips.map(|ip| ip["address"].as_str()?.split('/').next()?.parse().ok())
        .collect()
}

#[test]
fn a_chain_gives_its_answer_or_undoes_what_ran_and_remembers_what_stands() {
    let script = Script::new();
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|input: &Input| {
            let sandbox = script.sandbox();
            let count = 1 + usize::from(input.count) % NAMES.len();
            let (names, delegates) = (&NAMES[..count], &input.delegates[..count]);
            let told: Vec<_> = delegates.iter().map(Delegate::answers).collect();
            for (name, answers) in names.iter().zip(&told) {
                for (command, answer) in answers {
                    delegates::tell(&sandbox, name, command, answer);
                }
            }
            let result = if input.merged { "merge" } else { "last" };
            let config = json!({"cniVersion": "1.1.0", "name": "testnet",
                "ipam": {"delegates": names, "result": result}});
            let config = sandbox.confine(serde_json::to_vec(&config).unwrap());
            let ask = |command: &str| delegates::ask(input, &sandbox, command, &config);
            let is_recorded = || !Sandbox::snapshot(&sandbox.state_dir()).is_empty();
            let all_harmless = |ran: usize| delegates[..ran].iter().all(Delegate::is_harmless);

            let (outcome, calls) = ask("ADD");
            let ran = asked(&calls, "ADD");
            assert_eq!(ran, names[..ran.len()], "{calls:?}");
            let Outcome::Success(stdout) = outcome else {
                assert_eq!(asked(&calls, "DEL"), ran, "{calls:?}");
                assert!(
                    !(all_harmless(ran.len()) && is_recorded()),
                    "a record is left"
                );
                return;
            };
            assert_eq!(ran, names);
            assert_eq!(asked(&calls, "DEL"), Vec::<String>::new());
            assert!(is_recorded());
            let mut printed = told.iter().map(|[(_, add), ..]| &add.stdout);
            if input.merged {
                let printed: Vec<IpAddr> =
                    printed.filter_map(|output| ips(output)).flatten().collect();
                if let Some(answer) = ips(&stdout) {
                    assert!(printed.iter().all(|ip| answer.contains(ip)), "{answer:?}");
                }
            } else if asked(&calls, "VERSION").is_empty() {
                assert_eq!(printed.next_back(), Some(&stdout));
            }

            let (outcome, calls) = ask("DEL");
            assert_eq!(asked(&calls, "DEL"), names, "{calls:?}");
            assert_eq!(outcome.code().is_some(), is_recorded());
            assert!(!(all_harmless(count) && is_recorded()), "{outcome:?}");
            for name in names {
                delegates::tell(&sandbox, name, "DEL", &Answer::default());
            }
            assert_eq!(ask("DEL").0.code(), None);
            assert!(!is_recorded());
            sandbox.assert_nothing_got_out();
        });
}
