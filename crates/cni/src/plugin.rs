//! An IPAM plugin, from two sides: [`Plugin`] is what its author writes, a function for each command;
//! [`LinkedPlugin`] is what a chain in the same process calls, as it would call an executable.
//!
//! The crate `plugin` makes both an executable and a linked plugin of a [`Plugin`]. It has read and
//! checked the [`Call`] before; a function returns a [`Reply`] or an [`Error`], and prints nothing.

use crate::{
    Attachment, Call, Cancellation, Command, Environment, Error, JsonOutput, NetworkConfig, Reply,
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
    fn del(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    /// CHECK: verify that the attachment has what `prevResult` says.
    ///
    /// # Errors
    ///
    /// What differs, or is missing.
    fn check(&self, _: &Attachment, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    /// GC: release what belongs to none of the valid attachments.
    ///
    /// # Errors
    ///
    /// The reason why something could not be released, after everything else has been.
    fn gc(&self, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    /// STATUS: say whether an ADD would succeed.
    ///
    /// # Errors
    ///
    /// Code 50 or 51, with the reason why it wouldn't.
    fn status(&self, _: &Call<'_>) -> Result<Reply, Error> {
        Ok(Reply::Nothing)
    }

    /// True if SIGTERM and SIGINT cancel this command ([`Call::cancellation`]) instead
    /// of ending the process.
    fn handles_signals(&self, _: Command) -> bool {
        false
    }
}

/// Name, version and purpose of a plugin.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of its executable.
    pub name: &'static str,
    /// Version, commit and flavour: `0.1.0 (4bf92f3577b3, normal)`.
    pub version: &'static str,
    /// Its purpose, in one line.
    pub summary: &'static str,
}

/// The [`About`] of the crate that calls it.
#[macro_export]
macro_rules! about {
    () => {
        $crate::about!(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_DESCRIPTION"))
    };
    ($name:expr, $summary:expr) => {
        $crate::About {
            name: $name,
            version: env!("CARGO_PKG_VERSION"),
            summary: $summary,
        }
    };
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
