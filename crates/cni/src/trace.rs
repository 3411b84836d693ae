//! The trace that a call belongs to: W3C Trace Context, in `TRACEPARENT`.
//!
//! libcni passes the variable to plugins if the runtime traces. Then all log lines of a
//! runtime, a main plugin, our plugins and their delegates for one request carry the
//! same trace ID.

use derive_more::Display;

use crate::Environment;

/// Name of the environment variable with the caller's trace context, as OpenTelemetry has it.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// A trace context: `00-<trace ID>-<parent ID>-<flags>`, in hexadecimal digits.
///
/// ```
/// # use cni::TraceContext;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let trace = TraceContext::parse(text).unwrap();
/// assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(trace.to_string(), text);
/// ```
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub struct TraceContext(String);

impl TraceContext {
    /// Reads the variable's value; `None` if it isn't valid. The specification requires
    /// that an invalid value is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, length: usize| {
            let digits = part
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            part.len() == length && digits
        };
        let not_zero = |part: &str| part.bytes().any(|b| b != b'0');
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, parent, flags, rest @ ..] = parts.as_slice() else {
            return None;
        };
        // A later version may say more behind these.
        let valid = hex(version, 2)
            && *version != "ff"
            && (*version != "00" || rest.is_empty())
            && hex(trace, 32)
            && not_zero(trace)
            && hex(parent, 16)
            && not_zero(parent)
            && hex(flags, 2);
        valid.then(|| Self(text.to_owned()))
    }

    /// The trace of the call, or else a new one.
    pub fn of_call(environment: &Environment) -> Self {
        environment
            .get(TRACEPARENT)
            .and_then(|text| Self::parse(text.to_str()?))
            .unwrap_or_else(Self::new)
    }

    /// A new trace, which is not sampled.
    fn new() -> Self {
        // Neither part may be all zeros.
        let (trace, parent) = (fastrand::u128(1..), fastrand::u64(1..));
        Self(format!("00-{trace:032x}-{parent:016x}-00"))
    }

    /// The part that all of a request's calls share: 32 digits.
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_specification_allows_is_read() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let parent = "00f067aa0ba902b7";
        for good in [
            format!("00-{trace}-{parent}-00"),
            format!("01-{trace}-{parent}-01-more"),
        ] {
            assert!(TraceContext::parse(&good).is_some(), "{good}");
        }
        for bad in [
            String::new(),
            format!("00-{trace}-{parent}"),
            format!("00-{trace}-{parent}-01-more"),
            format!("ff-{trace}-{parent}-01"),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{parent}-01", &trace[1..]),
            format!("00-{trace}é-{parent}-01"),
        ] {
            assert_eq!(TraceContext::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_call_without_a_trace_gets_a_new_one() {
        let one = TraceContext::of_call(&Environment::default());
        assert_eq!(TraceContext::parse(&one.to_string()), Some(one.clone()));
        assert_ne!(
            TraceContext::of_call(&Environment::default().with(TRACEPARENT, "nonsense")),
            one
        );
    }
}
