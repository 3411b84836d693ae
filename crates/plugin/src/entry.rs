//! Entry points of a plugin: [`main`] as a process, [`respond`] in memory, [`Linked`] in the process of
//! a chain.
//!
//! All three end in `Answering`: it checks the environment before it reads the configuration, calls the
//! plugin's function for the command, and logs the call and its error. A panic becomes an error object,
//! so every call has an answer. Only `main` touches its process: variables, stdin, stdout, signals.

use std::any::Any;
use std::env;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use cni::{
    Call, Cancellation, Command, DELEGATE, Deliver, Environment, Error, JsonOutput, LinkedOutput,
    LinkedPlugin, NetworkConfig, Object, OneLine, Plugin, ROLLBACK, Reply, Request, SpecVersion,
    TRACEPARENT, TraceContext, code,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use serde_json::json;

use crate::command_line::{self, COMMIT, FLAVOUR};
use crate::log::{self, Context, LinkedLog};
use crate::signals::{Signals, survive};
use crate::stdio::{print, read_stdin, write_to_stderr};

/// Runs a plugin as this process: the complete `main` of its executable.
///
/// If the result of an ADD can't be printed because the caller has ended, the plugin's DEL undoes
/// the ADD. Otherwise, the reservation would be unknown to everybody.
pub fn main(plugin: &dyn Plugin) -> ExitCode {
    let about = plugin.about();
    if let Some(text) = command_line::answer(about) {
        let _ = io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let variables: Environment = env::vars_os().collect();
    if variables.get("CNI_COMMAND").is_none() {
        // Either a person has started it, or a runtime with a defect, which also gets a CNI error.
        write_to_stderr(command_line::usage(about).as_bytes());
        let is_cni = |name: &str| name.starts_with("CNI_");
        let mut names = variables.iter().filter_map(|(name, _)| name.to_str());
        if !names.any(is_cni) {
            return ExitCode::SUCCESS;
        }
    }
    // Without the handlers, most calls succeed as well.
    let _ = survive();
    log::init(about.name);

    // If a trace is created here, the rollback below must have the same one.
    let trace = TraceContext::of_call(&variables);
    let environment = variables.with(TRACEPARENT, trace.to_string());
    let signals = Signals::default();
    let print = |bytes: &[u8]| print(bytes, &signals);
    // One read is enough for most configurations.
    let mut stdin = Vec::with_capacity(8 << 10);
    let mut read = || {
        read_stdin(&mut stdin)?;
        // Before this, a signal ends the process, since there is nothing to undo.
        handle_signals(plugin, &environment, &signals);
        Ok(stdin.clone())
    };
    let answering = Answering {
        cancellation: Some(&signals),
        deliver: Some(&print),
        ..Answering::new(plugin, &environment)
    };
    let output = answering.of_stdin(&mut read);
    let printed = print(&output.stdout);
    if let (Err(error), true) = (&printed, output.success)
        && environment.text("CNI_COMMAND") == Command::Add.as_str()
    {
        tracing::error!(%error, "the result could not be delivered; undoing the ADD");
        undo(plugin, &environment, &stdin, &output.stdout);
    }
    if output.success && printed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Undoes an ADD with this stdin and this result, and nothing that an earlier ADD holds.
fn undo(plugin: &dyn Plugin, environment: &Environment, stdin: &[u8], result: &[u8]) {
    let environment = environment
        .clone()
        .with("CNI_COMMAND", "DEL")
        .with(ROLLBACK, "1");
    let with_result = || -> Result<NetworkConfig, Error> {
        let config = NetworkConfig::parse(stdin.to_vec())?;
        let result = JsonOutput::try_from(result.to_vec()).map_err(Error::config)?;
        Ok(config.with_prev_result(result.json()))
    };
    let config = with_result().map(|config| config.as_bytes().to_vec());
    let config = config.unwrap_or_else(|_| stdin.to_vec());
    Answering::new(plugin, &environment).of_stdin(&mut || Ok(config.clone()));
}

/// Installs signal handlers, if the plugin handles signals for this command.
fn handle_signals(plugin: &dyn Plugin, environment: &Environment, signals: &Signals) {
    let command: Option<Command> = environment.text("CNI_COMMAND").parse().ok();
    if command.is_some_and(|command| plugin.handles_signals(command))
        && let Err(error) = signals.install()
    {
        tracing::warn!(%error, "SIGTERM and SIGINT will end the call at once");
    }
}

/// Response of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// True if the exit status is 0.
    pub success: bool,
    /// All of stdout.
    pub stdout: Vec<u8>,
}

/// Answers a call in memory.
///
/// `stdin` is read only after the environment was found valid. Every call gets an answer: even a
/// panic becomes an error object.
pub fn respond(
    plugin: &dyn Plugin,
    environment: &Environment,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    cancellation: Option<&dyn Cancellation>,
) -> Response {
    let answering = Answering {
        cancellation,
        ..Answering::new(plugin, environment)
    };
    answering.of_stdin(stdin)
}

/// A plugin that is linked into this process, for a chain in this process.
#[derive(Clone, Copy)]
pub struct Linked<'a>(pub &'a dyn Plugin);

impl LinkedPlugin for Linked<'_> {
    fn name(&self) -> &str {
        self.0.about().name
    }

    fn call(
        &self,
        environment: &Environment,
        config: NetworkConfig,
        cancellation: Option<&dyn Cancellation>,
    ) -> LinkedOutput {
        let log = LinkedLog::begin(self.name());
        let answering = Answering {
            cancellation,
            ..Answering::new(self.0, environment)
        };
        let _context = answering.context();
        let request = answering.logged(|| {
            let request = Request::from_environment(environment)?;
            refuse_older(&request, &config).map(|()| request)
        });
        let answer = request.and_then(|request| {
            let config = match request.releases() {
                true => config.to_release(),
                false => config,
            };
            answering.run(&request, config)
        });
        LinkedOutput {
            answer,
            stderr: log.end(),
        }
    }
}

/// A call that is being answered.
struct Answering<'a> {
    plugin: &'a dyn Plugin,
    environment: &'a Environment,
    trace: TraceContext,
    /// True if the caller is a chain.
    is_delegate: bool,
    /// [`Call::cancellation`].
    cancellation: Option<&'a dyn Cancellation>,
    /// [`Call::deliver`].
    deliver: Option<Deliver<'a>>,
}

impl<'a> Answering<'a> {
    fn new(plugin: &'a dyn Plugin, environment: &'a Environment) -> Self {
        Self {
            plugin,
            environment,
            trace: TraceContext::of_call(environment),
            is_delegate: environment.get(DELEGATE).is_some(),
            cancellation: None,
            deliver: None,
        }
    }

    /// Answers the call whose configuration is on stdin.
    fn of_stdin(&self, stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>) -> Response {
        let _context = self.context();
        let mut version = SpecVersion::LATEST;
        let input = self.logged(|| self.read(stdin));
        let printed = input.and_then(|input| match input {
            (_, Stdin::Probe(stdin)) => Ok(supported_versions(&stdin)),
            (request, Stdin::Config(config)) => {
                version = config.version();
                let output = self.run(&request, config)?;
                Ok(output.map(JsonOutput::into_bytes).unwrap_or_default())
            }
        });
        let success = printed.is_ok();
        let stdout = printed.unwrap_or_else(|error| error.to_json(version));
        Response { success, stdout }
    }

    fn read(
        &self,
        stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<(Request, Stdin), Error> {
        let request = Request::from_environment(self.environment)?;
        let bytes = stdin().map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => Error::config(format!("stdin: {error}")),
            _ => Error::io("stdin", error),
        })?;
        if request == Request::Version {
            return Ok((request, Stdin::Probe(bytes)));
        }
        let config = match request.releases() {
            true => NetworkConfig::parse_to_release(bytes)?,
            false => NetworkConfig::parse(bytes)?,
        };
        refuse_older(&request, &config)?;
        Ok((request, Stdin::Config(config)))
    }

    /// Until it is dropped, log lines contain the plugin and the trace.
    fn context(&self) -> log::Entered {
        let about = self.plugin.about();
        let entered = Context::of_process(about.name, &self.trace).enter();
        tracing::debug!(
            version = about.version,
            flavour = FLAVOUR,
            commit = COMMIT.unwrap_or("unknown"),
            "starting"
        );
        entered
    }

    /// Runs `f`, and logs its error. A panic becomes an error.
    fn logged<T>(&self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        caught(f).inspect_err(|error| match self.is_delegate {
            // The chain reports the failure of a delegate, with its name.
            true => tracing::debug!(%error, "failed"),
            false => tracing::error!(%error, "failed"),
        })
    }

    /// Runs the plugin; returns the object to print, or `None` if it was already delivered.
    fn run(&self, request: &Request, config: NetworkConfig) -> Result<Option<JsonOutput>, Error> {
        let args = self.environment.text("CNI_ARGS");
        let _context = Context::of_call(request, config.name(), &args).enter();
        self.log_call(&config);
        let deliver = self.deliver.map(|deliver| {
            move |bytes: &[u8]| {
                tracing::debug!(output = %OneLine(bytes), "delivering the answer");
                deliver(bytes)
            }
        });
        let version = config.version();
        let call = Call {
            config,
            trace: self.trace.clone(),
            cancellation: self.cancellation,
            deliver: deliver.as_ref().map(|deliver| deliver as Deliver<'_>),
            environment: self.environment,
        };
        let output = self.logged(|| {
            Ok(match reply(self.plugin, request, &call)? {
                Reply::Nothing | Reply::Delivered => None,
                Reply::Result(result) => Some(JsonOutput::of_result(&result, version)),
                Reply::Verbatim(output) => Some(output),
            })
        })?;
        match &output {
            Some(output) if !self.is_delegate => {
                tracing::debug!(output = %OneLine(output.as_bytes()), "succeeded");
            }
            _ => tracing::debug!("succeeded"),
        }
        Ok(output)
    }

    /// Logs the call. A delegate's input is in the chain's own log.
    fn log_call(&self, config: &NetworkConfig) {
        if self.is_delegate {
            tracing::debug!("called by a chain");
            return;
        }
        tracing::debug!(
            args = ?self.environment.text("CNI_ARGS"),
            netns = ?self.environment.text("CNI_NETNS"),
            input = %OneLine(config.as_bytes()),
            "called"
        );
    }
}

/// Content of stdin.
enum Stdin {
    /// The input of VERSION.
    Probe(Vec<u8>),
    /// The configuration of any other command.
    Config(NetworkConfig),
}

/// Refuses a command that the configuration's version doesn't have.
fn refuse_older(request: &Request, config: &NetworkConfig) -> Result<(), Error> {
    let (command, version) = (request.command(), config.version());
    if version >= command.since() {
        return Ok(());
    }
    let since = command.since();
    let refusal = format!("cniVersion: {version} does not know {command}, which is of {since}");
    Err(Error::new(code::INCOMPATIBLE_VERSION, refusal))
}

fn reply(plugin: &dyn Plugin, request: &Request, call: &Call<'_>) -> Result<Reply, Error> {
    match request {
        Request::Add(attachment) => plugin.add(attachment, call),
        Request::Del(attachment) => plugin.del(attachment, call),
        Request::Check(attachment) => plugin.check(attachment, call),
        Request::Gc => plugin.gc(call),
        Request::Status => plugin.status(call),
        Request::Version => Ok(Reply::Nothing),
    }
}

/// Runs `f`; a panic becomes an error.
fn caught<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panic::catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(defect(panic.as_ref())))
}

fn defect(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let message = text.or_else(|| Some(panic.downcast_ref::<String>()?.as_str()));
    let message = message.unwrap_or("no message");
    // Some libraries panic if they get no descriptor. The text of the error depends on the C library,
    // and ENFILE, which is another limit, begins with the same words.
    let number = Errno::MFILE.raw_os_error();
    let forms = [format!("code: {number},"), format!("(os error {number})")];
    if forms.iter().any(|form| message.contains(form)) {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        return Error::io(
            format_args!("the limit of {limit} open files (RLIMIT_NOFILE) is too low"),
            message,
        );
    }
    Error::new(
        code::INTERNAL,
        format!("this is a defect in the plugin: {message}"),
    )
}

/// The answer to VERSION. Specification, section 5, "Version": `cniVersion` is the input's.
/// VERSION never fails; without a version in the input, the answer has the newest one.
fn supported_versions(stdin: &[u8]) -> Vec<u8> {
    let probe: Option<Object> = serde_json::from_str(&String::from_utf8_lossy(stdin)).ok();
    let version = probe.and_then(|probe| probe.read("", "cniVersion").ok()?);
    let asked_with: String = version.unwrap_or_else(|| SpecVersion::LATEST.to_string());
    let answer = json!({
        "cniVersion": asked_with,
        "supportedVersions": SpecVersion::NAMES,
    });
    format!("{answer}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_for_lack_of_descriptors_is_no_defect() {
        let error_of = |why: String| caught::<()>(|| panic!("no UnixStream: {why}")).unwrap_err();
        let error = io::Error::from(Errno::MFILE);
        // As musl's strerror(3) says it.
        let musl =
            r#"Os { code: 24, kind: Uncategorized, message: "No file descriptors available" }"#;
        for why in [format!("{error:?}"), error.to_string(), musl.to_owned()] {
            let error = error_of(why);
            assert_eq!(error.code, code::IO, "{error}");
            assert!(error.msg.contains("RLIMIT_NOFILE"), "{error}");
        }
        for errno in [Errno::INVAL, Errno::NFILE] {
            let error = error_of(format!("{:?}", io::Error::from(errno)));
            assert_eq!(error.code, code::INTERNAL, "{error}");
        }
    }
}
