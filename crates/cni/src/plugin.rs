//! What a plugin is: five commands and a name.

use std::ffi::OsString;

use crate::{
    Args, Attachment, Environment, Error, Interrupt, IpamResult, NetworkConfig, Printed,
    SearchPath, TraceContext, call,
};

/// An IPAM plugin. [`main`](crate::main) makes a program of it.
///
/// VERSION isn't here: every plugin answers it alike.
pub trait Plugin {
    /// Who it is.
    fn about(&self) -> About;

    /// ADD: give the attachment what it asks for.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from that; nothing is then left behind.
    fn add(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error>;

    /// DEL: take back what ADD gave. What isn't there any more is no error.
    ///
    /// # Errors
    ///
    /// Whatever could not be taken back.
    fn del(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error>;

    /// CHECK: verify that the attachment has what `prevResult` says.
    ///
    /// # Errors
    ///
    /// What is not as it should be.
    fn check(&self, attachment: &Attachment, call: &Call<'_>) -> Result<Reply, Error>;

    /// GC: release what belongs to none of the valid attachments.
    ///
    /// # Errors
    ///
    /// Whatever could not be released, after everything else has been.
    fn gc(&self, call: &Call<'_>) -> Result<Reply, Error>;

    /// STATUS: say whether an ADD would succeed.
    ///
    /// # Errors
    ///
    /// Why it wouldn't: code 50 or 51.
    fn status(&self, call: &Call<'_>) -> Result<Reply, Error>;
}

/// What a plugin says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of its executable.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// The [`About`] of the crate that it is written in.
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

/// What a plugin is called with, besides the attachment.
pub struct Call<'a> {
    /// The network configuration.
    pub config: NetworkConfig,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
    /// Tells when the call shall be given up, where that can be told: what waits for
    /// others then waits for this, too.
    pub interrupt: Option<&'a dyn Interrupt>,
    environment: Environment<'a>,
}

impl<'a> Call<'a> {
    /// A call with this configuration and environment.
    pub fn new(config: NetworkConfig, trace: TraceContext, environment: Environment<'a>) -> Self {
        Self {
            config,
            trace,
            interrupt: None,
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

    /// A variable that isn't CNI's.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        (self.environment)(name)
    }

    /// `CNI_PATH`, for a plugin that has delegates.
    ///
    /// # Errors
    ///
    /// Code 4 if it is missing or empty.
    pub fn search_path(&self) -> Result<SearchPath, Error> {
        SearchPath::from_environment(self.environment)
    }
}

/// What a plugin answers when it succeeds.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Nothing is printed.
    Nothing,
    /// This, in the shape of the configuration's `cniVersion`.
    Result(IpamResult),
    /// What a delegate printed, as it came.
    Verbatim(Printed),
}
