//! Calling a delegate that is in this very executable: what would be another
//! process's input and output, handed over in memory.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::Invocation;
use super::finished::{Complaints, Ended, Finished, MOST_OUTPUT};
use crate::entry::respond_until;
use crate::{Plugin, log};

/// Calls the plugin as its `main` would.
pub(super) fn run(plugin: &dyn Plugin, invocation: &Invocation<'_>) -> Finished {
    let environment = |name: &str| match name {
        "CNI_COMMAND" => Some(invocation.command.as_str().into()),
        _ => invocation
            .environment
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| value.clone())
            .or_else(|| env::var_os(name)),
    };
    let (response, stderr) = log::as_delegate(plugin.about().name, || {
        let mut stdin = || Ok(invocation.stdin.to_vec());
        respond_until(plugin, &environment, &mut stdin, invocation.interrupt)
    });
    let mut complaints = Complaints::default();
    complaints.add(&stderr);
    // As the system notes them: `exit(0)` and `exit(1)`.
    let status = if response.success { 0 } else { 1 << 8 };
    let too_much = response.stdout.len() > MOST_OUTPUT;
    Finished {
        ended: too_much.then_some(Ended::PrintedTooMuch),
        status: ExitStatus::from_raw(status),
        stdout: response.stdout,
        stderr: complaints.into_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::delegation::answer::{Answer, interpret};
    use crate::example::Example;

    #[test]
    fn a_direct_call_may_print_as_much_as_a_process_and_no_more() {
        let variables = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"];
        let environment = variables.map(|name| (name, "x".into()));
        let invocation = Invocation {
            command: Command::Add,
            stdin: br#"{"cniVersion":"1.0.0","name":"n","ipam":{}}"#,
            environment: &environment,
            timeout: None,
            interrupt: None,
        };
        let answer = |length| interpret(run(&Example { name: "a", length }, &invocation));
        assert!(matches!(answer(MOST_OUTPUT / 2), Answer::Result(_)));
        let Answer::Failed(failure) = answer(MOST_OUTPUT) else {
            panic!("it succeeded");
        };
        assert_eq!(failure.into_error().code, crate::code::DELEGATE_GARBLED);
    }
}
