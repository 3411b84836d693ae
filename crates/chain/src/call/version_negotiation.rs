//! Calls a delegate that doesn't support the network's version with the highest version
//! that both support.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use cni::{Command, DelegateName, IpamResult, JsonOutput, Object, SpecVersion, code};

use crate::call::delegate_call::DelegateCall;
use crate::call::outcome::{Failure, Kind, Outcome};

/// Runs a delegate once.
type RunOnce<'a> = &'a mut dyn FnMut(&DelegateCall<'_>) -> Outcome;

/// The highest common version of each delegate that was asked for its versions; `None` if there is
/// none. No delegate is asked twice by one chain.
#[derive(Default)]
pub(crate) struct CommonVersions(RefCell<HashMap<DelegateName, Option<SpecVersion>>>);

impl CommonVersions {
    /// Runs a delegate, with the network's version unless it is known to be too old for it. If it
    /// seems so by its failure, it is asked for its versions, and run again.
    pub(crate) fn run(&self, call: &DelegateCall<'_>, run: RunOnce<'_>) -> Outcome {
        let known = self.0.borrow().get(call.name).copied();
        let is_older = |version: &SpecVersion| *version < call.config.version();
        if let Some(version) = known.flatten().filter(is_older) {
            return run_in(version, call, run);
        }
        let outcome = run(call);
        match &outcome {
            Outcome::Failed(failure)
                if known.is_none() && may_be_too_old(failure, call.command) => {}
            _ => return outcome,
        }
        let version = highest_common_version(call, run);
        self.0.borrow_mut().insert(call.name.clone(), version);
        match version.filter(is_older) {
            Some(version) => run_in(version, call, run),
            // The delegate supports the version, or no common one: its failure counts.
            None => outcome,
        }
    }
}

/// Runs a delegate in an older version. A command that the version doesn't have is skipped.
fn run_in(version: SpecVersion, call: &DelegateCall<'_>, run: RunOnce<'_>) -> Outcome {
    if call.command.since() > version {
        tracing::debug!(delegate = %call.name, command = %call.command, %version, "skipped: its version has no such command");
        return Outcome::Nothing;
    }
    let config = Cow::Owned(call.config.in_version(version));
    let outcome = run(&DelegateCall {
        config,
        ..call.clone()
    });
    let Outcome::Result(output) = outcome else {
        return outcome;
    };
    match IpamResult::read("result", output.json()) {
        Ok(result) => Outcome::Result(JsonOutput::of_result(&result, call.config.version())),
        Err(error) => Outcome::Failed(Failure::no_result(&output, &error.msg)),
    }
}

/// Asks for the highest version that the delegate supports and the network allows.
fn highest_common_version(call: &DelegateCall<'_>, run: RunOnce<'_>) -> Option<SpecVersion> {
    let Outcome::Result(output) = run(&DelegateCall {
        command: Command::Version,
        ..call.clone()
    }) else {
        return None;
    };
    let supported = supported_versions(&output).ok()?;
    let known = supported.iter().filter_map(|text| text.parse().ok());
    known
        .filter(|version| *version <= call.config.version())
        .max()
}

/// The versions in an answer to VERSION.
pub(crate) fn supported_versions(output: &JsonOutput) -> Result<Vec<String>, String> {
    let answer: Object =
        serde_json::from_str(output.json().get()).map_err(|error| error.to_string())?;
    let versions = answer.required("", "supportedVersions");
    versions.map_err(|error| error.msg)
}

/// True if a delegate may have failed because it is too old: by the code of its error, or if the
/// command is one of the newest. Old delegates answer those with various errors, such as
/// an unknown command or a missing container ID. A delegate that answers with code 11,
/// 50 or 51 knows the command.
fn may_be_too_old(failure: &Failure, command: Command) -> bool {
    const UNDERSTOOD: [u64; 3] = [
        code::TRY_AGAIN_LATER,
        code::UNAVAILABLE,
        code::LIMITED_CONNECTIVITY,
    ];
    let is_new = matches!(command, Command::Gc | Command::Status);
    let code = failure.error.code;
    match failure.kind {
        Kind::Error => code == code::INCOMPATIBLE_VERSION || is_new && !UNDERSTOOD.contains(&code),
        Kind::Died => is_new,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::{Error, NetworkConfig};
    use serde_json::json;

    /// A delegate that supports versions up to one. It answers as Debian's plugins do:
    /// code 1 for other versions, code 4 for commands that it doesn't know.
    struct Old {
        supported: Vec<&'static str>,
        log: Vec<String>,
    }

    impl Old {
        fn up_to(newest: SpecVersion) -> Self {
            let supported = SpecVersion::ALL.iter();
            let supported = supported.filter(|version| **version <= newest);
            Self {
                supported: supported.map(|version| version.as_str()).collect(),
                log: Vec::new(),
            }
        }
    }

    fn failed(code: u64) -> Outcome {
        Outcome::Failed(Failure::printed(Error::new(code, "no"), ""))
    }

    fn printed(json: &str) -> Outcome {
        Outcome::Result(JsonOutput::try_from(json.as_bytes().to_vec()).unwrap())
    }

    impl Old {
        fn run(&mut self, call: &DelegateCall<'_>) -> Outcome {
            let stdin = String::from_utf8(call.config.as_bytes().to_vec()).unwrap();
            self.log.push(format!("{} {stdin}", call.command));
            if call.command == Command::Version {
                let answer = json!({"cniVersion": "1.0.0", "supportedVersions": self.supported});
                return printed(&answer.to_string());
            }
            let config = NetworkConfig::parse(stdin.into_bytes()).unwrap();
            let newest = self
                .supported
                .last()
                .and_then(|version| version.parse().ok());
            if newest.is_none_or(|newest| config.version() > newest) {
                failed(code::INCOMPATIBLE_VERSION)
            } else if newest.is_some_and(|newest| call.command.since() > newest) {
                failed(code::INVALID_ENVIRONMENT)
            } else if call.command == Command::Add {
                printed(
                    r#"{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.2/24"}],"x":1}"#,
                )
            } else {
                failed(code::INVALID_ENVIRONMENT)
            }
        }
    }

    fn run(old: &mut Old, commands: &[Command], prev_result: Option<&str>) -> Vec<Outcome> {
        let stdin = br#"{"cniVersion":"1.1.0","name":"n"}"#;
        let config = NetworkConfig::parse(stdin.to_vec()).unwrap();
        let raw: Option<&serde_json::value::RawValue> =
            prev_result.map(|json| serde_json::from_str(json).unwrap());
        let name: DelegateName = "old".parse().unwrap();
        let versions = CommonVersions::default();
        commands
            .iter()
            .map(|command| {
                let call = DelegateCall::new(&name, *command, &config, raw);
                versions.run(&call, &mut |call| old.run(call))
            })
            .collect()
    }

    #[test]
    fn the_highest_common_version_is_used_and_asked_for_once() {
        let mut old = Old::up_to(SpecVersion::V0_4_0);
        let prev_result = r#"{"ips":[{"address":"fd00::2/64"}]}"#;
        let outcomes = run(&mut old, &[Command::Add, Command::Add], Some(prev_result));
        for outcome in outcomes {
            let Outcome::Result(result) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(
                result.json().get(),
                r#"{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.2/24"}],"x":1,"routes":[],"dns":{}}"#
            );
        }
        let calls: Vec<&str> = old
            .log
            .iter()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(calls, ["ADD", "VERSION", "ADD", "ADD"]);
        let version = r#"VERSION {"cniVersion":"1.1.0","#;
        assert!(old.log[1].starts_with(version), "{}", old.log[1]);
        for call in &old.log[2..] {
            assert!(call.contains(r#""cniVersion":"0.4.0","name""#), "{call}");
            let prev_result = r#""address":"fd00::2/64","version":"6""#;
            assert!(call.contains(prev_result), "{call}");
        }
    }

    #[test]
    fn commands_that_are_too_new_are_skipped() {
        let mut old = Old::up_to(SpecVersion::V1_0_0);
        let outcomes = run(&mut old, &[Command::Gc, Command::Status], None);
        let skipped = |outcome: &Outcome| matches!(outcome, Outcome::Nothing);
        assert!(outcomes.iter().all(skipped), "{outcomes:?}");
        assert_eq!(old.log.len(), 2);
    }

    #[test]
    fn a_failure_with_a_supported_version_is_a_failure() {
        for (command, calls) in [(Command::Gc, 2), (Command::Del, 1)] {
            let mut new = Old::up_to(SpecVersion::V1_1_0);
            let outcomes = run(&mut new, &[command], None);
            assert!(matches!(outcomes[0], Outcome::Failed(_)), "{command}");
            // It is not run again.
            assert_eq!(new.log.len(), calls, "{:?}", new.log);
        }
    }

    #[test]
    fn without_a_common_version_the_refusal_is_returned() {
        let mut ancient = Old {
            supported: vec!["0.1.0", "0.2.0"],
            log: Vec::new(),
        };
        let outcome = run(&mut ancient, &[Command::Add], None).remove(0);
        let Outcome::Failed(failure) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(failure.error.code, code::INCOMPATIBLE_VERSION);
    }

    #[test]
    fn a_command_of_the_delegates_own_newest_version_is_run() {
        let mut old = Old::up_to(SpecVersion::V0_4_0);
        run(&mut old, &[Command::Add, Command::Check], None);
        let last = old.log.last().unwrap();
        assert!(last.starts_with("CHECK "), "{last}");
        assert!(last.contains(r#""cniVersion":"0.4.0""#), "{last}");
    }

    #[test]
    fn a_delegate_may_be_too_old_if_it_says_so_or_fails_a_new_command_in_its_own_way() {
        let printed = |code| Failure::printed(Error::new(code, "no"), "");
        let died = || Failure::new(Kind::Died, code::DELEGATE_FAILED, "died");
        for (failure, [on_del, on_gc]) in [
            (printed(code::INCOMPATIBLE_VERSION), [true, true]),
            (printed(code::INVALID_ENVIRONMENT), [false, true]),
            (printed(code::TRY_AGAIN_LATER), [false, false]),
            (printed(code::UNAVAILABLE), [false, false]),
            (printed(code::LIMITED_CONNECTIVITY), [false, false]),
            (died(), [false, true]),
            (Failure::silent(), [false, false]),
        ] {
            assert_eq!(
                may_be_too_old(&failure, Command::Del),
                on_del,
                "{failure:?}"
            );
            for command in [Command::Gc, Command::Status] {
                assert_eq!(may_be_too_old(&failure, command), on_gc, "{failure:?}");
            }
        }
    }
}
