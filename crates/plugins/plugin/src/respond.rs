//! Answers one call: from the environment and stdin to stdout and success or failure.

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};

use cni::{
    AttachmentCommand, CHAIN_CALL, Call, Cancellation, Deliver, Environment, Error, JsonOutput,
    NetworkConfig, OneLine, Plugin, Reply, Request, SpecVersion, TraceContext, code,
};
use serde::Deserialize;
use serde_json::json;

use crate::command_line::{COMMIT, FLAVOUR};
use crate::log::Context;

/// The output of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// True if the exit status is 0.
    pub success: bool,
    /// All of stdout.
    pub stdout: Vec<u8>,
}

/// Answers one call, in memory.
///
/// `stdin` is read only after the environment has been found valid. There is always an
/// answer: even a panic becomes an error object.
pub fn respond(
    plugin: &dyn Plugin,
    environment: &Environment,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    cancellation: Option<&dyn Cancellation>,
) -> Output {
    let caller = Caller {
        cancellation,
        ..Caller::default()
    };
    respond_to(plugin, environment, stdin, &caller)
}

/// The abilities of a call's caller.
#[derive(Clone, Copy, Default)]
pub(crate) struct Caller<'a> {
    /// [`Call::cancellation`].
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// [`Call::deliver`].
    pub(crate) deliver: Option<Deliver<'a>>,
    /// [`Call::owns_process`].
    pub(crate) owns_process: bool,
}

/// Answers one call of this caller.
pub(crate) fn respond_to(
    plugin: &dyn Plugin,
    environment: &Environment,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    caller: &Caller<'_>,
) -> Output {
    let answering = Answering::new(plugin, environment, *caller);
    let mut version = SpecVersion::LATEST;
    let printed = answering.in_context(|| match answering.logged(|| read(environment, stdin))? {
        Input::Version(stdin) => Ok(supported_versions(&stdin)),
        Input::Call(request, config) => {
            version = config.version();
            let output = answering.run(&request, config)?;
            Ok(output.map(JsonOutput::into_bytes).unwrap_or_default())
        }
    });
    let success = printed.is_ok();
    let stdout = printed.unwrap_or_else(|error: Error| error.to_json(version));
    Output { success, stdout }
}

/// Answers one call of a chain in this process; returns the object that the plugin's own
/// process would print.
///
/// # Errors
///
/// The error that the plugin's own process would print.
pub(crate) fn answer_chain(
    plugin: &dyn Plugin,
    environment: &Environment,
    config: NetworkConfig,
    cancellation: Option<&dyn Cancellation>,
) -> Result<Option<JsonOutput>, Error> {
    let caller = Caller {
        cancellation,
        ..Caller::default()
    };
    let answering = Answering::new(plugin, environment, caller);
    answering.in_context(|| {
        let request = answering.logged(|| {
            let request = Request::from_environment(environment)?;
            refuse_older(&request, &config).map(|()| request)
        })?;
        answering.run(&request, config)
    })
}

/// The input of a call.
enum Input {
    /// VERSION, with stdin.
    Version(Vec<u8>),
    /// Any other command.
    Call(Request, NetworkConfig),
}

fn read(
    environment: &Environment,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
) -> Result<Input, Error> {
    let request = Request::from_environment(environment)?;
    let bytes = stdin().map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => Error::config(format!("stdin: {error}")),
        _ => Error::io("stdin", error),
    })?;
    if request == Request::Version {
        return Ok(Input::Version(bytes));
    }
    let config = NetworkConfig::parse(bytes)?;
    refuse_older(&request, &config)?;
    Ok(Input::Call(request, config))
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

/// A call that is being answered.
struct Answering<'a> {
    plugin: &'a dyn Plugin,
    environment: &'a Environment,
    caller: Caller<'a>,
    trace: TraceContext,
    /// True if the caller is a chain.
    is_delegate: bool,
}

impl<'a> Answering<'a> {
    fn new(plugin: &'a dyn Plugin, environment: &'a Environment, caller: Caller<'a>) -> Self {
        Self {
            plugin,
            environment,
            caller,
            trace: TraceContext::of_call(environment),
            is_delegate: environment.get(CHAIN_CALL).is_some(),
        }
    }

    /// Runs `f`, whose lines in the log carry the plugin and the trace.
    fn in_context<T>(&self, f: impl FnOnce() -> T) -> T {
        let about = self.plugin.about();
        Context::of_process(about.name, &self.trace).during(|| {
            tracing::debug!(
                version = about.version,
                flavour = FLAVOUR,
                commit = COMMIT.unwrap_or("unknown"),
                "starting"
            );
            f()
        })
    }

    /// Runs `f`, and logs its error. A panic is an error, too.
    fn logged<T>(&self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        caught(f).inspect_err(|error| match self.is_delegate {
            // The chain reports a delegate's failure, with the delegate's name.
            true => tracing::debug!(%error, "failed"),
            false => tracing::error!(%error, "failed"),
        })
    }

    /// Runs the plugin; returns the object to print, unless it has been delivered.
    fn run(&self, request: &Request, config: NetworkConfig) -> Result<Option<JsonOutput>, Error> {
        Context::of_call(request, config.name()).during(|| {
            self.log_call(&config);
            let deliver = self.caller.deliver.map(|deliver| {
                move |bytes: &[u8]| {
                    tracing::debug!(output = %OneLine(bytes), "delivering the answer");
                    deliver(bytes)
                }
            });
            let version = config.version();
            let call = Call {
                config,
                trace: self.trace.clone(),
                cancellation: self.caller.cancellation,
                deliver: deliver.as_ref().map(|deliver| deliver as Deliver<'_>),
                owns_process: self.caller.owns_process,
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
        })
    }

    /// Logs the call. Of a delegate's input, the chain's own log has all but `prevResult`.
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

fn reply(plugin: &dyn Plugin, request: &Request, call: &Call<'_>) -> Result<Reply, Error> {
    match request {
        Request::Attachment(AttachmentCommand::Add, attachment) => plugin.add(attachment, call),
        Request::Attachment(AttachmentCommand::Del, attachment) => plugin.del(attachment, call),
        Request::Attachment(AttachmentCommand::Check, attachment) => plugin.check(attachment, call),
        Request::Gc => plugin.gc(call),
        Request::Status => plugin.status(call),
        Request::Version => Ok(Reply::Nothing),
    }
}

/// Runs `f`, and makes an error of a panic.
fn caught<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panic::catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(defect(panic.as_ref())))
}

fn defect(panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::new(
        code::INTERNAL,
        format!("this is a defect in the plugin: {message}"),
    )
}

/// The answer to VERSION. Specification, section 5, "Version": `cniVersion` is the
/// question's. A probe never fails; without a question, the newest version is named.
fn supported_versions(stdin: &[u8]) -> Vec<u8> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Probe {
        cni_version: String,
    }
    let asked_with = serde_json::from_slice(stdin).map_or_else(
        |_| SpecVersion::LATEST.to_string(),
        |probe: Probe| probe.cni_version,
    );
    let answer = json!({
        "cniVersion": asked_with,
        "supportedVersions": SpecVersion::ALL.map(SpecVersion::as_str),
    });
    format!("{answer}\n").into_bytes()
}
