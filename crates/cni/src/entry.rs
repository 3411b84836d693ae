//! A plugin's `main`: from the environment and stdin to stdout and the exit
//! status.

use std::any::Any;
use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::{env, iter};

use serde::Deserialize;
use serde_json::json;

use crate::log::{self, OneLine, Who};
use crate::{
    About, AttachmentCommand, Call, Command, Environment, Error, Interrupt, NetworkConfig, Plugin,
    Reply, Request, SpecVersion, TRACEPARENT, TraceContext, code,
};

/// What goes to stdout, and whether the exit status is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// All that is printed.
    pub stdout: Vec<u8>,
    /// Whether the call succeeded.
    pub success: bool,
}

/// Runs a plugin as the program that this is: the whole `main` of its
/// executable.
///
/// An ADD whose result can't be printed (the caller has gone) is undone by the
/// plugin's DEL, so that nothing stays reserved that nobody knows of.
pub fn main(plugin: &dyn Plugin) -> ExitCode {
    let about = plugin.about();
    if let Some(text) = text_for_people(about) {
        let _ = io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    if env::var_os("CNI_COMMAND").is_none() {
        // A person, or a runtime that is badly wrong: it gets an answer, too.
        let _ = io::stderr().write_all(usage(about).as_bytes());
        if !env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CNI_")) {
            return ExitCode::SUCCESS;
        }
    }
    log::init(about.name);
    silence_panics();

    let trace = TraceContext::of_call(&|name| env::var_os(name));
    let environment = |name: &str| match name {
        TRACEPARENT => Some(trace.to_variable()),
        _ => env::var_os(name),
    };
    // More than most have, so that one read gets it all.
    let mut stdin = Vec::with_capacity(8 << 10);
    let response = respond(plugin, &environment, &mut || {
        io::stdin().lock().read_to_end(&mut stdin)?;
        Ok(stdin.clone())
    });
    let printed = print(&response.stdout);
    if let (Err(error), true) = (&printed, response.success) {
        undo(plugin, error, &environment, &stdin);
    }
    if response.success && printed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Takes back what an ADD gave when nobody has heard of it.
fn undo(plugin: &dyn Plugin, error: &io::Error, environment: Environment<'_>, stdin: &[u8]) {
    if environment("CNI_COMMAND").is_none_or(|command| command != Command::Add.as_str()) {
        return;
    }
    tracing::error!(%error, "the result could not be delivered; undoing the ADD");
    let as_del = |name: &str| match name {
        "CNI_COMMAND" => Some(Command::Del.as_str().into()),
        _ => environment(name),
    };
    respond(plugin, &as_del, &mut || Ok(stdin.to_vec()));
}

/// Answers one call.
///
/// `stdin` is read only if the environment is as it should be. Whatever
/// happens, there is an answer: even a panic becomes an error object.
pub fn respond(
    plugin: &dyn Plugin,
    environment: Environment<'_>,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
) -> Response {
    respond_until(plugin, environment, stdin, None)
}

/// Answers one call, which is given up when this says so.
pub(crate) fn respond_until(
    plugin: &dyn Plugin,
    environment: Environment<'_>,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    interrupt: Option<&dyn Interrupt>,
) -> Response {
    let trace = TraceContext::of_call(environment);
    Who::process(&trace).during(|| {
        tracing::debug!(version = plugin.about().version, "starting");
        match caught(|| question(environment, stdin)) {
            Err(error) => Response::failure(&error, SpecVersion::LATEST),
            Ok(Question::Version(stdin)) => Response::success(supported_versions(&stdin)),
            Ok(Question::Call(request, config)) => {
                let version = config.version();
                Who::call(&request, config.name()).during(|| {
                    tracing::debug!(input = %OneLine(config.as_bytes()), "called");
                    let mut call = Call::new(config, trace.clone(), environment);
                    call.interrupt = interrupt;
                    match caught(|| answer(plugin, &request, &call)) {
                        Ok(stdout) => Response::success(stdout),
                        Err(error) => Response::failure(&error, version),
                    }
                })
            }
        }
    })
}

impl Response {
    fn success(stdout: Vec<u8>) -> Self {
        tracing::debug!(output = %OneLine(&stdout), "succeeded");
        Self {
            stdout,
            success: true,
        }
    }

    fn failure(error: &Error, version: SpecVersion) -> Self {
        tracing::error!(%error, "failed");
        Self {
            stdout: error.to_json(version),
            success: false,
        }
    }
}

/// What is asked.
enum Question {
    /// VERSION, with what was on stdin.
    Version(Vec<u8>),
    /// Anything else.
    Call(Request, NetworkConfig),
}

fn question(
    environment: Environment<'_>,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
) -> Result<Question, Error> {
    let request = Request::from_environment(environment)?;
    let bytes = stdin().map_err(|e| Error::io("stdin", e))?;
    if request == Request::Version {
        return Ok(Question::Version(bytes));
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
    Ok(Question::Call(request, config))
}

fn answer(plugin: &dyn Plugin, request: &Request, call: &Call<'_>) -> Result<Vec<u8>, Error> {
    let reply = match request {
        Request::Attachment(AttachmentCommand::Add, it) => plugin.add(it, call),
        Request::Attachment(AttachmentCommand::Del, it) => plugin.del(it, call),
        Request::Attachment(AttachmentCommand::Check, it) => plugin.check(it, call),
        Request::Gc => plugin.gc(call),
        Request::Status => plugin.status(call),
        Request::Version => Ok(Reply::Nothing),
    }?;
    Ok(match reply {
        Reply::Nothing => Vec::new(),
        Reply::Result(result) => {
            let mut json = result.to_json(call.config.version());
            json.push(b'\n');
            json
        }
        Reply::Verbatim(printed) => printed.into_bytes(),
    })
}

/// Runs `f`; a panic is an error like others.
fn caught<T>(f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panic::catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(internal(panic.as_ref())))
}

/// The answer to VERSION. Specification, section 5, "Version": `cniVersion` is
/// what was asked with. A probe never fails; without a question there, the
/// newest is named.
fn supported_versions(stdin: &[u8]) -> Vec<u8> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Probe {
        cni_version: String,
    }
    let asked_with = serde_json::from_slice(stdin).map_or_else(
        |_| SpecVersion::LATEST.to_string(),
        |p: Probe| p.cni_version,
    );
    let answer = json!({
        "cniVersion": asked_with,
        "supportedVersions": SpecVersion::ALL.map(SpecVersion::as_str),
    });
    format!("{answer}\n").into_bytes()
}

fn internal(panic: &(dyn Any + Send)) -> Error {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::new(
        code::INTERNAL,
        format!("this is a defect in the plugin: {what}"),
    )
}

/// A panic's message goes where every message goes.
fn silence_panics() {
    panic::set_hook(Box::new(|info| {
        tracing::error!(at = info.location().map(tracing::field::display), "panic");
    }));
}

/// The answer to `--help` and `--version`.
fn text_for_people(about: About) -> Option<String> {
    let argument = env::args_os().nth(1)?;
    match argument.to_str()? {
        "--version" | "-V" => Some(format!("{} {}\n", about.name, version(about))),
        "--help" | "-h" => Some(usage(about)),
        _ => None,
    }
}

/// The version, and the commit if the build was told.
fn version(about: About) -> String {
    match option_env!("IPAM_DELEGATED_COMMIT") {
        Some(commit) => format!("{} ({commit})", about.version),
        None => about.version.to_owned(),
    }
}

fn usage(about: About) -> String {
    let About { name, summary, .. } = about;
    let version = version(about);
    iter::once(format!("{name} {version}: {summary}"))
        .chain([
            format!("CNI versions supported: {}", SpecVersion::list()),
            format!(
                "Use: a container runtime runs it, with CNI_COMMAND set and the network \
                 configuration on stdin: CNI_COMMAND=VERSION {name} </dev/null"
            ),
        ])
        .map(|line| line + "\n")
        .collect()
}
