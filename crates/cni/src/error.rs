//! The error object that a plugin prints on stdout when it fails.

use std::{fmt, mem};

use crate::{Object, SpecVersion};

/// A CNI error, for a program (`code`) and for a person (`msg`, `details`).
///
/// Specification, section 5, "Error".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Kind of the error. See [`code`].
    pub code: u64,
    /// One sentence, which names the key or the variable and its value.
    pub msg: String,
    /// Further information; may be empty.
    pub details: String,
}

/// Error codes. Those below 100 are the specification's; those from 100 on are
/// ours, and never change their meaning. `docs/errors.md` explains each.
pub mod code {
    /// The configuration's `cniVersion`, or the command in that version, isn't supported.
    pub const INCOMPATIBLE_VERSION: u64 = 1;
    /// A variable is missing or malformed.
    pub const INVALID_ENVIRONMENT: u64 = 4;
    /// Reading or writing failed.
    pub const IO: u64 = 5;
    /// The configuration isn't a JSON object.
    pub const UNDECODABLE: u64 = 6;
    /// A key of the configuration is missing or has a wrong value.
    pub const INVALID_CONFIG: u64 = 7;
    /// Temporary failure: a pool has no address left, a delegate has timed out, or an
    /// earlier call is still running.
    pub const TRY_AGAIN_LATER: u64 = 11;
    /// STATUS: an ADD would fail.
    pub const UNAVAILABLE: u64 = 50;
    /// STATUS: an ADD would fail, and containers that are there may suffer.
    pub const LIMITED_CONNECTIVITY: u64 = 51;

    /// No executable of the delegate's name is in `CNI_PATH`.
    pub const DELEGATE_NOT_FOUND: u64 = 100;
    /// The operating system refused to start the delegate.
    pub const DELEGATE_NOT_STARTED: u64 = 101;
    /// The delegate was ended by a signal.
    pub const DELEGATE_KILLED: u64 = 102;
    /// The delegate exited with a status other than 0 and printed no CNI error.
    pub const DELEGATE_FAILED: u64 = 103;
    /// The delegate answered ADD with nothing.
    pub const DELEGATE_SILENT: u64 = 104;
    /// The delegate printed something other than a JSON object, or too many bytes.
    pub const DELEGATE_GARBLED: u64 = 105;

    /// SIGTERM or SIGINT came during an ADD, which has been undone.
    pub const INTERRUPTED: u64 = 106;

    /// The attachment has been added already, or has an address of the pool.
    pub const ALREADY_ALLOCATED: u64 = 110;
    /// The requested address is reserved to another attachment.
    pub const REQUESTED_TAKEN: u64 = 111;
    /// CHECK: an address isn't reserved to the attachment. DEL in a cluster: it is, under another
    /// node's name or machine's ID.
    pub const NOT_RESERVED: u64 = 112;
    /// etcd or the API server refuses the node: certificate, token or rights.
    pub const ENGINE_REFUSED: u64 = 113;
    /// An ADD has failed, and undoing it has failed or could not prove that nothing is left: an
    /// address may stay reserved until the DEL.
    pub const UNKNOWN_OUTCOME: u64 = 114;
    /// Somebody on the containers' wire uses the allocated address, or asks for it, too.
    pub const IN_USE_ON_THE_WIRE: u64 = 115;

    /// A DHCP server refuses a lease.
    pub const SERVER_REFUSED: u64 = 116;

    /// A defect in the plugin itself.
    pub const INTERNAL: u64 = 199;
}

impl Error {
    /// An error of this code, with no details.
    pub fn new(code: u64, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    /// The same error, with these details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The same error, with this as a further line of its details. Nothing is added if it is
    /// empty.
    #[must_use]
    pub fn with_line(mut self, line: &str) -> Self {
        if !self.details.is_empty() && !line.is_empty() {
            self.details.push('\n');
        }
        self.details.push_str(line);
        self
    }

    /// Several errors as one: the code of the first, each message once, and the details of all.
    ///
    /// # Errors
    ///
    /// That error, if there is one.
    pub fn all_as_one(errors: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        let Some(mut all) = errors.next() else {
            return Ok(());
        };
        let mut msgs = vec![mem::take(&mut all.msg)];
        for error in errors {
            all = all.with_line(&error.details);
            if !msgs.contains(&error.msg) {
                msgs.push(error.msg);
            }
        }
        all.msg = msgs.join("; ");
        Err(all)
    }

    /// Code 4. `msg` must name the variable.
    pub fn environment(msg: impl Into<String>) -> Self {
        Self::new(code::INVALID_ENVIRONMENT, msg)
    }

    /// Code 7. `msg` must name the key and the value.
    pub fn config(msg: impl Into<String>) -> Self {
        Self::new(code::INVALID_CONFIG, msg)
    }

    /// Code 5, about `what` (a path, or a stream).
    pub fn io(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(code::IO, format!("{what}: {error}"))
    }

    /// The object as it is printed, in one line.
    pub fn to_json(&self, version: SpecVersion) -> Vec<u8> {
        let mut object = Object::new();
        object.set("cniVersion", version.as_str());
        object.set("code", &self.code);
        object.set("msg", &self.msg);
        if !self.details.is_empty() {
            object.set("details", &self.details);
        }
        let mut json = serde_json::to_vec(&object).expect("an object is JSON");
        json.push(b'\n');
        json
    }
}

impl fmt::Display for Error {
    /// In one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.msg, self.code)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details.replace('\n', "; "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_as_one_object_in_one_line() {
        let error = Error::config("name: \"\" is no network name").with_details("a\nb");
        assert_eq!(
            String::from_utf8(error.to_json(SpecVersion::V1_0_0)).unwrap(),
            "{\"cniVersion\":\"1.0.0\",\"code\":7,\
             \"msg\":\"name: \\\"\\\" is no network name\",\"details\":\"a\\nb\"}\n"
        );
    }

    #[test]
    fn several_errors_are_one_that_says_each_thing_once() {
        let errors = ["away", "full", "away"].map(|msg| Error::new(11, msg).with_details(msg));
        let expected = Error::new(11, "away; full").with_details("away\nfull\naway");
        assert_eq!(Error::all_as_one(errors), Err(expected));
        assert_eq!(Error::all_as_one([]), Ok(()));
    }

    #[test]
    fn empty_details_are_left_out() {
        let json = Error::new(5, "x").to_json(SpecVersion::LATEST);
        assert!(!String::from_utf8(json).unwrap().contains("details"));
    }
}
