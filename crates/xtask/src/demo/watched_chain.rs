//! Runs a chain as `ipam-delegated` does, and reports the steps of its delegates.

use std::cell::RefCell;
use std::time::Duration;

use chain::{Chain, Event, Observer, Outcome, Plugins};
use cni::{About, Attachment, Call, Command, Error, JsonOutput, Plugin, Reply};
use harness::ORCHESTRATOR;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// One call of a chain, from its events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChainCall {
    /// The command of the call.
    pub(crate) command: String,
    /// The delegates' parts, in order.
    pub(crate) steps: Vec<Step>,
    /// The chain's result, `null` for none, or its error.
    pub(crate) outcome: Result<Value, String>,
}

/// One delegate's part in a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The delegate's name, and its command if that isn't the call's.
    pub(crate) name: String,
    /// Its running time.
    pub(crate) took: Duration,
    /// The result that the delegate was given; `null` for none.
    pub(crate) given: Value,
    /// All that it wrote to stderr.
    pub(crate) stderr: String,
    /// Its result, `null` for none, or its error.
    pub(crate) outcome: Option<Result<Value, String>>,
}

/// The plugin: a chain whose delegates are executed from `CNI_PATH`.
pub(crate) struct WatchedChain<'a> {
    /// Is told of each call.
    pub(crate) tell: &'a (dyn Fn(ChainCall) + Sync),
}

impl WatchedChain<'_> {
    fn run(
        &self,
        command: Command,
        call: &Call<'_>,
        run: impl FnOnce(&Chain<'_>) -> Result<Option<JsonOutput>, Error>,
    ) -> Result<Reply, Error> {
        let steps = Steps::of(command);
        let plugins = Plugins::in_cni_path(call.environment)?;
        let chain = Chain::new(&call.config, call.environment, plugins)?.observed_by(&steps);
        let result = run(&chain);
        (self.tell)(ChainCall {
            command: command.to_string(),
            steps: steps.steps.take(),
            outcome: match &result {
                Ok(output) => Ok(json(output.as_ref().map(JsonOutput::json))),
                Err(error) => Err(error.to_string()),
            },
        });
        Ok(result?.map_or(Reply::Nothing, Reply::Verbatim))
    }
}

impl Plugin for WatchedChain<'_> {
    fn about(&self) -> About {
        About {
            name: ORCHESTRATOR,
            ..cni::about!()
        }
    }

    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.run(Command::Add, call, |it| it.add(attachment).map(Some))
    }

    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.run(Command::Del, call, |it| it.del(attachment).map(|()| None))
    }

    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        self.run(Command::Check, call, |it| {
            it.check(attachment).map(|()| None)
        })
    }

    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.run(Command::Gc, call, |it| it.gc().map(|()| None))
    }

    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        self.run(Command::Status, call, |it| it.status().map(|()| None))
    }
}

/// Collects the steps of a call from its events.
struct Steps {
    command: Command,
    steps: RefCell<Vec<Step>>,
}

impl Steps {
    fn of(command: Command) -> Self {
        Self {
            command,
            steps: RefCell::default(),
        }
    }
}

impl Observer for Steps {
    fn event(&self, event: &Event<'_>) {
        let mut steps = self.steps.borrow_mut();
        if let Event::Started {
            delegate,
            command,
            stdin,
            ..
        } = event
        {
            let input: Value = serde_json::from_slice(stdin).unwrap_or_default();
            let name = match *command == self.command {
                true => delegate.to_string(),
                false => format!("{delegate} {command}"),
            };
            steps.push(Step {
                name,
                given: input["prevResult"].clone(),
                ..Step::default()
            });
        }
        let Some(step) = steps.last_mut() else { return };
        match event {
            Event::Started { .. } => {}
            Event::Stderr { bytes, .. } => step.stderr += &String::from_utf8_lossy(bytes),
            Event::Ended { outcome, took, .. } => {
                step.took = *took;
                step.outcome = Some(match outcome {
                    Outcome::Result(output) => Ok(json(Some(output.json()))),
                    Outcome::Nothing => Ok(Value::Null),
                    Outcome::Failed(failure) => Err(failure.to_error().to_string()),
                });
            }
        }
    }
}

fn json(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use cni::Environment;
    use serde_json::json;

    use super::*;

    /// A chain of shell scripts, each with a name and a body.
    fn watched(command: &str, delegates: &[(&str, &str)]) -> ChainCall {
        let root = tempfile::tempdir().unwrap();
        for (name, body) in delegates {
            let path = root.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let names: Vec<&str> = delegates.iter().map(|(name, _)| *name).collect();
        let config = json!({"cniVersion": "1.0.0", "name": "net",
            "ipam": {"delegates": names, "stateDir": root.path().join("state")}});
        let environment = Environment::default()
            .with("CNI_COMMAND", command)
            .with("CNI_CONTAINERID", "c1")
            .with("CNI_NETNS", "/run/netns/c1")
            .with("CNI_IFNAME", "eth0")
            .with("CNI_PATH", root.path());
        let calls = Mutex::new(Vec::new());
        let tell = |call| calls.lock().unwrap().push(call);
        let plugin = WatchedChain { tell: &tell };
        let mut stdin = || Ok(config.to_string().into_bytes());
        plugin::respond(&plugin, &environment, &mut stdin, None);
        calls.into_inner().unwrap().remove(0)
    }

    #[test]
    fn a_step_has_what_the_delegate_was_given_and_answered() {
        let call = watched(
            "ADD",
            &[
                ("a", r#"echo '{"x": 1}'"#),
                ("b", r#"echo oh >&2; echo '{"ips": []}'"#),
            ],
        );
        let steps: Vec<_> = call
            .steps
            .iter()
            .map(|it| (it.name.as_str(), &it.given, it.stderr.as_str()))
            .collect();
        let given = json!({"x": 1});
        assert_eq!(steps, [("a", &Value::Null, ""), ("b", &given, "oh\n")]);
        assert_eq!(call.steps[1].outcome, Some(Ok(json!({"ips": []}))));
        assert_eq!(call.outcome, Ok(json!({"ips": []})));
        let text = serde_json::to_string(&call).unwrap();
        let read: ChainCall = serde_json::from_str(&text).unwrap();
        assert_eq!(read.steps, call.steps);
    }

    #[test]
    fn a_rollback_is_steps_of_another_command() {
        let fails = r#"[ $CNI_COMMAND = DEL ] || { echo '{"code": 11, "msg": "full"}'; exit 1; }"#;
        let call = watched("ADD", &[("a", r#"echo '{"x": 1}'"#), ("b", fails)]);
        let names: Vec<&str> = call.steps.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "a DEL", "b DEL"]);
        let failed = Some(Err("full (code 11)".to_owned()));
        assert_eq!(call.steps[1].outcome, failed);
        assert!(call.outcome.unwrap_err().starts_with("b: full (code 11)"));
    }
}
