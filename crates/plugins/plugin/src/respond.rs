//! Answers one call: from the environment and stdin to stdout and success or failure.

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};

use cni::{
    About, AttachmentCommand, CHAIN_CALL, Call, Cancellation, Deliver, Environment, Error,
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

/// The abilities of whoever makes a call.
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
    let trace = TraceContext::of_call(environment);
    // The chain reports a delegate's failure, with the delegate's name.
    let is_delegate = environment.get(CHAIN_CALL).is_some();
    let about = plugin.about();
    Context::of_process(about.name, &trace).during(|| {
        starting(about);
        match caught(|| read(environment, stdin)) {
            Err(error) => failed(&error, SpecVersion::LATEST, is_delegate),
            Ok(Input::Version(stdin)) => succeeded(supported_versions(&stdin), is_delegate),
            Ok(Input::Call(request, config)) => {
                Context::of_call(&request, config.name()).during(|| {
                    called(environment, &config, is_delegate);
                    let version = config.version();
                    let mut call = Call::new(config, environment);
                    call.trace = trace.clone();
                    call.cancellation = caller.cancellation;
                    call.owns_process = caller.owns_process;
                    let deliver_and_log = caller.deliver.map(|deliver| {
                        move |bytes: &[u8]| {
                            tracing::debug!(output = %OneLine(bytes), "delivering the answer");
                            deliver(bytes)
                        }
                    });
                    call.deliver = deliver_and_log.as_ref().map(|it| it as Deliver<'_>);
                    match caught(|| answer(plugin, &request, &call)) {
                        Ok(None) => succeeded(Vec::new(), true),
                        Ok(Some(stdout)) => succeeded(stdout, is_delegate),
                        Err(error) => failed(&error, version, is_delegate),
                    }
                })
            }
        }
    })
}

fn starting(about: About) {
    let commit = COMMIT.unwrap_or("unknown");
    tracing::debug!(
        version = about.version,
        flavour = FLAVOUR,
        commit,
        "starting"
    );
}

/// Logs the call. Of a delegate's input, the chain's own log has all but `prevResult`.
fn called(environment: &Environment, config: &NetworkConfig, is_delegate: bool) {
    let text = |variable| environment.text(variable);
    if is_delegate {
        tracing::debug!("called by a chain");
    } else {
        tracing::debug!(
            args = ?text("CNI_ARGS"),
            netns = ?text("CNI_NETNS"),
            input = %OneLine(config.as_bytes()),
            "called"
        );
    }
}

fn succeeded(stdout: Vec<u8>, is_delegate: bool) -> Output {
    if is_delegate {
        tracing::debug!("succeeded");
    } else {
        tracing::debug!(output = %OneLine(&stdout), "succeeded");
    }
    Output {
        success: true,
        stdout,
    }
}

fn failed(error: &Error, version: SpecVersion, is_delegate: bool) -> Output {
    if is_delegate {
        tracing::debug!(%error, "failed");
    } else {
        tracing::error!(%error, "failed");
    }
    Output {
        success: false,
        stdout: error.to_json(version),
    }
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
    let (version, since) = (config.version(), request.command().since());
    if version < since {
        return Err(Error::new(
            code::INCOMPATIBLE_VERSION,
            format!(
                "cniVersion: {version} does not know {}, which is of {since}",
                request.command()
            ),
        ));
    }
    Ok(Input::Call(request, config))
}

/// The bytes to print; `None` if they have been delivered.
fn answer(
    plugin: &dyn Plugin,
    request: &Request,
    call: &Call<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let reply = match request {
        Request::Attachment(AttachmentCommand::Add, it) => plugin.add(it, call),
        Request::Attachment(AttachmentCommand::Del, it) => plugin.del(it, call),
        Request::Attachment(AttachmentCommand::Check, it) => plugin.check(it, call),
        Request::Gc => plugin.gc(call),
        Request::Status => plugin.status(call),
        Request::Version => Ok(Reply::Nothing),
    }?;
    Ok(printed(reply, call.config.version()))
}

/// The bytes to print; `None` if they have been delivered.
fn printed(reply: Reply, version: SpecVersion) -> Option<Vec<u8>> {
    match reply {
        Reply::Delivered => None,
        Reply::Nothing => Some(Vec::new()),
        Reply::Result(result) => {
            let mut json = result.to_json(version);
            json.push(b'\n');
            Some(json)
        }
        Reply::Verbatim(output) => Some(output.into_bytes()),
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
