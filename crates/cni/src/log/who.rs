//! Whose lines they are: what all lines of a process and of a call carry.
//!
//! Not spans of the library: they need its registry, which is larger than all else
//! that a call needs.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, SubscriberBuilder};
use tracing_subscriber::registry::LookupSpan;

use crate::{NetworkName, Request, TraceContext};

thread_local! {
    /// What the lines carry now.
    static WHO: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What lines carry.
pub(crate) struct Who(String);

impl Who {
    /// A process. Not its caller as well: a plugin that is called directly isn't in
    /// its caller's call.
    pub(crate) fn process(trace: &TraceContext) -> Self {
        let (trace, pid) = (trace.trace_id(), std::process::id());
        Self(format!("cni{{trace={trace} pid={pid}}}:"))
    }

    /// The process of now, and its call.
    pub(crate) fn call(request: &Request, network: &NetworkName) -> Self {
        let mut who = WHO.with_borrow(Clone::clone);
        let command = request.command();
        let _ = write!(who, "call{{command={command} network={network}");
        if let Some(it) = request.attachment() {
            let _ = write!(who, " container={} ifname={}", it.container_id, it.ifname);
        }
        who.push_str("}:");
        Self(who)
    }

    /// Runs `it` with lines that carry this.
    pub(crate) fn during<T>(self, it: impl FnOnce() -> T) -> T {
        let before = WHO.replace(self.0);
        // Whatever happens in it, its panics included, is caught there.
        let answer = it();
        WHO.set(before);
        answer
    }
}

/// The library's subscriber of such lines, without the level and the writer.
pub(super) fn lines() -> SubscriberBuilder<DefaultFields, Lines> {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .event_format(Lines)
}

/// A line: time, level, whose it is, and what there is to say.
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
        write!(to, " {:>5} ", event.metadata().level())?;
        // Some are of no call, and say so.
        if !event.is_root() {
            WHO.with_borrow(|who| {
                if who.is_empty() {
                    Ok(())
                } else {
                    write!(to, "{who} ")
                }
            })?;
        }
        context.format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Seek};
    use std::sync::Arc;

    fn request(command: &str) -> Request {
        Request::from_environment(&|name| match name {
            "CNI_COMMAND" => Some(command.into()),
            _ => Some("x1".into()),
        })
        .unwrap()
    }

    /// What `it` logs, without the times.
    fn lines_of(it: impl FnOnce()) -> Vec<String> {
        let mut lines = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = super::lines().with_writer(Arc::clone(&lines));
        tracing::subscriber::with_default(subscriber.finish(), it);
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
    fn lines_carry_whose_they_are() {
        let trace = |id: char| {
            let id = id.to_string().repeat(32);
            TraceContext::parse(&format!("00-{id}-00f067aa0ba902b7-01")).unwrap()
        };
        let network = "net".parse().unwrap();
        let call = |command: &str| Who::call(&request(command), &network);
        let lines = lines_of(|| {
            tracing::warn!("nobody's");
            Who::process(&trace('a')).during(|| {
                tracing::error!(error = "e", "its");
                call("ADD").during(|| {
                    tracing::info!(number = 1);
                    // It is called directly.
                    Who::process(&trace('b'))
                        .during(|| call("GC").during(|| tracing::info!("the delegate's")));
                    tracing::warn!(parent: None, "of no call");
                    tracing::info!("its again");
                });
            });
        });
        let pid = std::process::id();
        let [a, b] = ['a', 'b'].map(|id| {
            let id = id.to_string().repeat(32);
            format!("cni{{trace={id} pid={pid}}}:")
        });
        let add = format!("{a}call{{command=ADD network=net container=x1 ifname=x1}}:");
        assert_eq!(
            lines,
            [
                " WARN nobody's".to_owned(),
                format!("ERROR {a} its error=\"e\""),
                format!(" INFO {add} number=1"),
                format!(" INFO {b}call{{command=GC network=net}}: the delegate's"),
                " WARN of no call".to_owned(),
                format!(" INFO {add} its again"),
            ]
        );
    }
}
