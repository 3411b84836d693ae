//! An IPAM plugin: a name and a function for each command.

use std::io;

use crate::{
    Args, Attachment, Cancellation, Command, Environment, Error, IpamResult, JsonOutput,
    NetworkConfig, TraceContext, call,
};

/// An IPAM plugin. `plugin::main` makes an executable of it.
///
/// Only ADD must be written. The defaults do nothing and succeed. VERSION isn't here:
/// every plugin answers it alike.
pub trait Plugin: Sync {
    /// Its name, version and purpose.
    fn about(&self) -> About;

    /// ADD: give the attachment what it asks for.
    ///
    /// # Errors
    ///
    /// The reason why the attachment can't be added; the plugin then leaves nothing behind.
    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error>;

    /// DEL: take back what ADD gave. Something that is gone already is no error.
    ///
    /// # Errors
    ///
    /// The reason why something could not be released.
    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let _ = (attachment, call);
        Ok(Reply::Nothing)
    }

    /// CHECK: verify that the attachment has what `prevResult` says.
    ///
    /// # Errors
    ///
    /// The difference.
    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error> {
        let _ = (attachment, call);
        Ok(Reply::Nothing)
    }

    /// GC: release what belongs to none of the valid attachments.
    ///
    /// # Errors
    ///
    /// The reason why something could not be released, after everything else has been.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let _ = call;
        Ok(Reply::Nothing)
    }

    /// STATUS: say whether an ADD would succeed.
    ///
    /// # Errors
    ///
    /// Code 50 or 51, with the reason why it wouldn't.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let _ = call;
        Ok(Reply::Nothing)
    }

    /// True if the plugin executes others. A separate process is then the subreaper of its
    /// descendants ([`Call::owns_process`]).
    fn executes_others(&self) -> bool {
        false
    }

    /// True if SIGTERM and SIGINT cancel this command ([`Call::cancellation`]) instead
    /// of ending the process.
    fn handles_signals(&self, command: Command) -> bool {
        let _ = command;
        false
    }
}

/// Name, version and purpose of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of its executable.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its purpose, in one line.
    pub summary: &'static str,
}

/// The [`About`] of the crate that calls it.
#[macro_export]
macro_rules! about {
    () => {
        $crate::About {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            summary: env!("CARGO_PKG_DESCRIPTION"),
        }
    };
}

/// A call of a plugin, besides the command and the attachment.
pub struct Call<'a> {
    /// The network configuration.
    pub config: NetworkConfig,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
    /// Cancellation of the call, if the caller supports it. Every wait must end with it.
    pub cancellation: Option<&'a dyn Cancellation>,
    /// Delivers the answer before the call ends, if the caller supports it. A plugin
    /// that uses it can undo its work while it still holds its locks, and replies with
    /// [`Reply::Delivered`].
    pub deliver: Option<Deliver<'a>>,
    /// True if the process does nothing but this call, is the subreaper of its descendants,
    /// and had no child before. Then every child of it is the call's.
    pub owns_process: bool,
    /// All variables of the call. A plugin must not read those of the process.
    pub environment: &'a Environment,
}

/// Delivers the bytes of an answer to the caller.
pub type Deliver<'a> = &'a dyn Fn(&[u8]) -> io::Result<()>;

impl<'a> Call<'a> {
    /// A call with this configuration and environment, which nobody cancels.
    pub fn new(config: NetworkConfig, environment: &'a Environment) -> Self {
        Self {
            config,
            trace: TraceContext::of_call(environment),
            cancellation: None,
            deliver: None,
            owns_process: false,
            environment,
        }
    }

    /// `CNI_ARGS`.
    ///
    /// # Errors
    ///
    /// Code 4 if it is malformed.
    pub fn args(&self) -> Result<Args, Error> {
        call::args(self.environment)
    }
}

/// The answer of a plugin that succeeded.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Nothing is printed.
    Nothing,
    /// A result, printed in the shape of the configuration's `cniVersion`.
    Result(IpamResult),
    /// A delegate's output, printed as it came.
    Verbatim(JsonOutput),
    /// The answer has been delivered ([`Call::deliver`]).
    Delivered,
}

/// A plugin that is linked into this process, so that a chain calls it without executing a
/// file.
pub trait LinkedPlugin: Sync {
    /// The name of the plugin.
    fn name(&self) -> &str;

    /// Answers a call as the plugin's own process would.
    fn call(
        &self,
        environment: &Environment,
        config: NetworkConfig,
        cancellation: Option<&dyn Cancellation>,
    ) -> LinkedOutput;
}

/// The output of a [`LinkedPlugin`].
#[derive(Clone, Debug)]
pub struct LinkedOutput {
    /// Its stdout: an object, or nothing; or its error.
    pub answer: Result<Option<JsonOutput>, Error>,
    /// Its stderr.
    pub stderr: Vec<u8>,
}
