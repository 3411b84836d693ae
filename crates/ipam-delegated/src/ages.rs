//! Delegates of every age: one that doesn't know the network's version is asked
//! which it knows, and called with the highest that both sides have.

use std::collections::HashMap;

use cni::{
    Answer, Command, DelegateName, Failure, IpamResult, NetworkConfig, Printed, SpecVersion, code,
};
use serde::Deserialize;
use serde_json::json;

use crate::delegates::Delegates;

/// Delegates, and what has been learned of their ages.
pub(crate) struct Ages<D> {
    delegates: D,
    /// The version to call a delegate with, where it isn't the network's. Nothing
    /// is asked twice within a call.
    learned: HashMap<DelegateName, SpecVersion>,
}

impl<D: Delegates> Ages<D> {
    pub(crate) fn new(delegates: D) -> Self {
        Self {
            delegates,
            learned: HashMap::new(),
        }
    }

    /// Calls it with another version than the configuration's.
    fn run_in(
        &mut self,
        version: SpecVersion,
        name: &DelegateName,
        command: Command,
        config: &NetworkConfig,
    ) -> Answer {
        if command.since() > version {
            tracing::debug!(delegate = %name, %command, %version, "too old to know it: skipped");
            return Answer::Nothing;
        }
        match self
            .delegates
            .run(name, command, &config.in_version(version))
        {
            Answer::Result(printed) => in_version(&printed, config.version()),
            other => other,
        }
    }

    /// The highest version that both sides have and the network allows.
    fn ask(&mut self, name: &DelegateName, network: SpecVersion) -> Option<SpecVersion> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Versions {
            supported_versions: Vec<String>,
        }
        let question = json!({ "cniVersion": network.as_str() }).to_string();
        let answer = self
            .delegates
            .run(name, Command::Version, question.as_bytes());
        let Answer::Result(printed) = answer else {
            return None;
        };
        let versions: Versions = serde_json::from_str(printed.json().get()).ok()?;
        tracing::debug!(delegate = %name, versions = ?versions.supported_versions, "has said its versions");
        versions
            .supported_versions
            .iter()
            .filter_map(|text| text.parse().ok())
            .filter(|version| *version <= network)
            .max()
    }
}

impl<D: Delegates> Delegates for Ages<D> {
    fn run(&mut self, name: &DelegateName, command: Command, stdin: &[u8]) -> Answer {
        let config = || NetworkConfig::parse(stdin.to_vec());
        if let Some(version) = self.learned.get(name).copied()
            && let Ok(config) = config()
            && version < config.version()
        {
            return self.run_in(version, name, command, &config);
        }
        let answer = self.delegates.run(name, command, stdin);
        let Answer::Failed(failure) = &answer else {
            return answer;
        };
        if !may_be_of_age(failure, command) {
            return answer;
        }
        let Ok(config) = config() else { return answer };
        match self.ask(name, config.version()) {
            Some(version) if version < config.version() => {
                self.learned.insert(name.clone(), version);
                self.run_in(version, name, command, &config)
            }
            // It knows the version, or none that we do: the failure is what it is.
            _ => answer,
        }
    }

    fn interrupted(&self) -> bool {
        self.delegates.interrupted()
    }

    fn undoing(&mut self) {
        self.delegates.undoing();
    }
}

/// Whether a failure may be one of a delegate that is too old: it says so, or it
/// doesn't know one of the newest commands. To those, old ones say many things:
/// that the command is unknown, that the container ID is missing. But one that
/// says that it isn't available has understood.
fn may_be_of_age(failure: &Failure, command: Command) -> bool {
    const UNDERSTOOD: [u64; 3] = [
        code::TRY_AGAIN_LATER,
        code::UNAVAILABLE,
        code::LIMITED_CONNECTIVITY,
    ];
    let is_new = matches!(command, Command::Gc | Command::Status);
    match failure {
        Failure::Error { error, .. } => {
            error.code == code::INCOMPATIBLE_VERSION || is_new && !UNDERSTOOD.contains(&error.code)
        }
        Failure::Died { .. } => is_new,
        _ => false,
    }
}

/// The result in the network's version.
fn in_version(printed: &Printed, version: SpecVersion) -> Answer {
    let converted = IpamResult::read("result", printed.json())
        .map_err(|error| error.msg)
        .and_then(|result| Printed::try_from(result.to_json(version)));
    match converted {
        Ok(printed) => Answer::Result(printed),
        Err(reason) => Answer::Failed(Failure::Garbled {
            reason,
            stdout: printed.json().get().to_owned(),
            stderr: String::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Error;

    /// Knows versions up to one, as Debian's plugins do: code 1 for others, code
    /// 4 for commands that it hasn't heard of.
    struct Old {
        newest: SpecVersion,
        log: Vec<String>,
    }

    fn failed(code: u64) -> Answer {
        Answer::Failed(Failure::Error {
            error: Error::new(code, "no"),
            stderr: String::new(),
        })
    }

    fn printed(json: &str) -> Answer {
        Answer::Result(Printed::try_from(json.as_bytes().to_vec()).unwrap())
    }

    impl Delegates for &mut Old {
        fn run(&mut self, _: &DelegateName, command: Command, stdin: &[u8]) -> Answer {
            let stdin = String::from_utf8(stdin.to_vec()).unwrap();
            self.log.push(format!("{command} {stdin}"));
            if command == Command::Version {
                let known = SpecVersion::ALL.iter().filter(|v| **v <= self.newest);
                let list: Vec<&str> = known.map(|v| v.as_str()).collect();
                return printed(
                    &json!({"cniVersion": "1.0.0", "supportedVersions": list}).to_string(),
                );
            }
            let config = NetworkConfig::parse(stdin.into_bytes()).unwrap();
            if command.since() > self.newest {
                failed(code::INVALID_ENVIRONMENT)
            } else if config.version() > self.newest {
                failed(code::INCOMPATIBLE_VERSION)
            } else if command == Command::Add {
                printed(
                    r#"{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.2/24"}],"x":1}"#,
                )
            } else {
                Answer::Nothing
            }
        }
    }

    fn run(old: &mut Old, commands: &[Command], rest: &str) -> Vec<Answer> {
        let stdin = format!(r#"{{"cniVersion":"1.1.0","name":"n"{rest}}}"#);
        let mut ages = Ages::new(old);
        let name: DelegateName = "old".parse().unwrap();
        commands
            .iter()
            .map(|c| ages.run(&name, *c, stdin.as_bytes()))
            .collect()
    }

    #[test]
    fn the_highest_common_version_is_used_and_asked_for_once() {
        let mut old = Old {
            newest: SpecVersion::V0_4_0,
            log: vec![],
        };
        let prev = r#","prevResult":{"ips":[{"address":"fd00::2/64"}]}"#;
        let answers = run(&mut old, &[Command::Add, Command::Del], prev);
        let Answer::Result(result) = &answers[0] else {
            panic!("{answers:?}")
        };
        assert_eq!(
            result.json().get(),
            r#"{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.2/24"}],"x":1,"routes":[],"dns":{}}"#
        );
        assert!(matches!(answers[1], Answer::Nothing));
        let calls: Vec<&str> = old
            .log
            .iter()
            .map(|l| l.split(' ').next().unwrap())
            .collect();
        assert_eq!(calls, ["ADD", "VERSION", "ADD", "DEL"]);
        assert_eq!(old.log[1], r#"VERSION {"cniVersion":"1.1.0"}"#);
        for call in &old.log[2..] {
            assert!(call.contains(r#""cniVersion":"0.4.0","name""#), "{call}");
            assert!(
                call.contains(r#""address":"fd00::2/64","version":"6""#),
                "{call}"
            );
        }
    }

    #[test]
    fn commands_that_are_too_new_are_skipped() {
        let mut old = Old {
            newest: SpecVersion::V1_0_0,
            log: vec![],
        };
        let answers = run(&mut old, &[Command::Gc, Command::Status], "");
        assert!(
            answers.iter().all(|a| matches!(a, Answer::Nothing)),
            "{answers:?}"
        );
        assert_eq!(old.log.len(), 2);
        let mut old = Old {
            newest: SpecVersion::V0_3_1,
            log: vec![],
        };
        let answers = run(&mut old, &[Command::Check], "");
        assert!(
            matches!(answers[0], Answer::Failed(_)),
            "code 4 is not of age for CHECK"
        );
    }

    #[test]
    fn a_failure_of_one_that_is_new_enough_is_a_failure() {
        struct New;
        impl Delegates for New {
            fn run(&mut self, _: &DelegateName, command: Command, _: &[u8]) -> Answer {
                match command {
                    Command::Version => {
                        printed(r#"{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}"#)
                    }
                    _ => failed(code::INVALID_ENVIRONMENT),
                }
            }
        }
        let stdin = br#"{"cniVersion":"1.1.0","name":"n"}"#;
        let answer = Ages::new(New).run(&"new".parse().unwrap(), Command::Gc, stdin);
        assert!(matches!(answer, Answer::Failed(_)));
    }

    #[test]
    fn without_a_common_version_the_refusal_stands() {
        struct Ancient;
        impl Delegates for Ancient {
            fn run(&mut self, _: &DelegateName, command: Command, _: &[u8]) -> Answer {
                match command {
                    Command::Version => {
                        printed(r#"{"cniVersion":"0.2.0","supportedVersions":["0.1.0","0.2.0"]}"#)
                    }
                    _ => failed(code::INCOMPATIBLE_VERSION),
                }
            }
        }
        let stdin = br#"{"cniVersion":"1.1.0","name":"n"}"#;
        let answer = Ages::new(Ancient).run(&"a".parse().unwrap(), Command::Add, stdin);
        let Answer::Failed(failure) = answer else {
            panic!()
        };
        assert_eq!(failure.into_error().code, code::INCOMPATIBLE_VERSION);
    }
}
