//! A call of a plugin, and its answer.

use std::io;

use crate::{
    Args, Cancellation, Environment, Error, IpamResult, JsonOutput, NetworkConfig, TraceContext,
};

/// A call of a plugin, besides the command and the attachment.
pub struct Call<'a> {
    /// What the runtime wrote to stdin.
    pub config: NetworkConfig,
    /// The trace that the call belongs to.
    pub trace: TraceContext,
    /// Cancellation of the call, if the caller supports it. Every wait must end with it.
    pub cancellation: Option<&'a dyn Cancellation>,
    /// Delivers the answer before the call ends, if the caller supports it. A plugin
    /// that uses it can undo its work while it still holds its locks, and replies with
    /// [`Reply::Delivered`].
    pub deliver: Option<Deliver<'a>>,
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
            environment,
        }
    }

    /// `CNI_ARGS`. What isn't UTF-8 in it is replaced, as host-local's decoder does it.
    ///
    /// # Errors
    ///
    /// Code 4 if it is malformed.
    pub fn args(&self) -> Result<Args, Error> {
        Args::parse(&self.environment.text("CNI_ARGS"))
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_byte_of_cni_args_that_is_no_text_is_replaced() {
        let bytes = b"IgnoreUnknown=1;K8S_POD_NAME=caf\xe9".to_vec();
        let environment = Environment::default().with("CNI_ARGS", OsString::from_vec(bytes));
        let config = br#"{"cniVersion":"1.0.0","name":"net"}"#.to_vec();
        let call = Call::new(NetworkConfig::parse(config).unwrap(), &environment);
        let args = call.args().unwrap();
        let mut pairs = args.iter();
        assert!(pairs.any(|pair| pair == ("K8S_POD_NAME", "caf\u{fffd}")));
    }
}
