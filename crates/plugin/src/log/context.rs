//! The context in each log line: plugin, trace, process, call and the container's names.
//!
//! The library's spans could do this, but they need its registry, which is larger than all other
//! code of a call.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;

use cni::{Args, Excerpt, NetworkName, OneLine, Request, TraceContext};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, SubscriberBuilder};
use tracing_subscriber::registry::LookupSpan;

thread_local! {
    /// The context of this thread's log lines.
    static CONTEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A context of log lines.
pub(crate) struct Context(String);

impl Context {
    /// The context of a plugin's process, or of a linked plugin.
    pub(crate) fn of_process(plugin: &str, trace: &TraceContext) -> Self {
        let (trace, pid) = (trace.trace_id(), std::process::id());
        Self(format!("{plugin} trace={trace} pid={pid}"))
    }

    /// The current context, and the call's in addition. `args` is `CNI_ARGS`.
    pub(crate) fn of_call(request: &Request, network: &NetworkName, args: &str) -> Self {
        let mut context = CONTEXT.with_borrow(Clone::clone);
        let _ = write!(context, " command={} network={network}", request.command());
        if let Some(attachment) = request.attachment() {
            let (id, ifname) = (&attachment.container_id, &attachment.ifname);
            let _ = write!(context, " container={id} ifname={ifname}");
        }
        if let Some(names) = names(args) {
            let _ = write!(context, " names={names}");
        }
        Self(context)
    }

    /// Until the guard is dropped, this thread's lines have this context.
    pub(crate) fn enter(self) -> Entered {
        Entered {
            before: CONTEXT.replace(self.0),
        }
    }
}

/// The names in `CNI_ARGS`, as one word: whoever starts a container writes them, and could forge a
/// field of the line with a space.
fn names(args: &str) -> Option<String> {
    let args = Args::parse(args).unwrap_or_default();
    let pairs = args.names().map(|(key, value)| format!("{key}={value}"));
    let names = pairs.collect::<Vec<_>>().join(";");
    let mut word = String::new();
    for character in Excerpt(&names).to_string().chars() {
        if character.is_whitespace() || character == '"' {
            word.extend(character.escape_unicode());
        } else {
            word.push(character);
        }
    }
    (!word.is_empty()).then_some(word)
}

/// Guard of a context of this thread.
pub(crate) struct Entered {
    before: String,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CONTEXT.set(std::mem::take(&mut self.before));
    }
}

/// The library's subscriber for such lines, without level and writer.
pub(super) fn lines() -> SubscriberBuilder<DefaultFields, Lines> {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .event_format(Lines)
}

/// Formats a line: time, level, context, message and fields.
pub(super) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut to)?;
        let mut text = String::new();
        let is_of_a_call = !event.is_root();
        CONTEXT.with_borrow(|context| {
            if is_of_a_call && !context.is_empty() {
                let _ = write!(text, "{context}: ");
            }
        });
        context.format_fields(Writer::new(&mut text), event)?;
        // Variables and files may contain control characters.
        let text = OneLine(text.as_bytes());
        writeln!(to, " {:>5} {text}", event.metadata().level())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;
    use std::io::{self, Seek};
    use std::sync::Arc;

    fn request(command: &str) -> Request {
        let variables = ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_PATH"];
        let set = |it: Environment, name: &&str| it.with(name, "x1");
        let environment = variables.iter().fold(Environment::default(), set);
        Request::from_environment(&environment.with("CNI_COMMAND", command)).unwrap()
    }

    /// The lines that `f` logs, without the times.
    fn lines_of(f: impl FnOnce()) -> Vec<String> {
        let mut lines = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = super::lines().with_writer(Arc::clone(&lines));
        tracing::subscriber::with_default(subscriber.finish(), f);
        lines.rewind().unwrap();
        let lines = io::read_to_string(lines).unwrap();
        let without_time = |line: &str| {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
            rest.to_owned()
        };
        lines.lines().map(without_time).collect()
    }

    #[test]
    fn each_line_carries_its_plugin_and_its_call() {
        let trace = |id: char| {
            let id = id.to_string().repeat(32);
            TraceContext::parse(&format!("00-{id}-00f067aa0ba902b7-01")).unwrap()
        };
        let network = "net".parse().unwrap();
        let args = "IgnoreUnknown=1;K8S_POD_NAME=web \"1\nx;TEAM=b";
        let call = |command: &str| Context::of_call(&request(command), &network, args);
        let lines = lines_of(|| {
            tracing::warn!("nobody's");
            let _one = Context::of_process("one", &trace('a')).enter();
            tracing::error!(error = "e\x1b[2J", "its");
            let _add = call("ADD").enter();
            tracing::info!(number = 1);
            {
                let _two = Context::of_process("two", &trace('b')).enter();
                let _gc = call("GC").enter();
                tracing::info!("the delegate's");
            }
            tracing::warn!(parent: None, "of no call");
            tracing::info!("its\nagain");
        });
        let pid = std::process::id();
        let [a, b] = [("one", 'a'), ("two", 'b')].map(|(plugin, id)| {
            let id = id.to_string().repeat(32);
            format!("{plugin} trace={id} pid={pid}")
        });
        let names = "names=K8S_POD_NAME=web\\u{20}\\u{22}1\\nx;TEAM=b";
        let add = format!("{a} command=ADD network=net container=x1 ifname=x1 {names}");
        assert_eq!(
            lines,
            [
                " WARN nobody's".to_owned(),
                format!("ERROR {a}: its error=\"e\\u{{1b}}[2J\""),
                format!(" INFO {add}: number=1"),
                format!(" INFO {b} command=GC network=net {names}: the delegate's"),
                " WARN of no call".to_owned(),
                format!(" INFO {add}: its\\nagain"),
            ]
        );
    }
}
