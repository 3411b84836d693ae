//! The normal flavour: warnings and errors to stderr.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use super::Stderr;
use super::context::lines;

pub(super) fn init(_plugin: &str) {
    let _ = tracing::subscriber::set_global_default(Lazy::default());
}

/// The log of a thread: empty, because plugins have no log file.
pub(super) struct ThreadLog;

pub(super) fn switch_to(_plugin: &str) -> ThreadLog {
    ThreadLog
}

pub(super) fn restore(_before: ThreadLog) {}

/// Creates the library's subscriber for the first line. Most calls log nothing, and the creation
/// takes a twentieth of an ADD.
#[derive(Default)]
struct Lazy(OnceLock<Dispatch>);

impl Lazy {
    fn subscriber(&self) -> &Dispatch {
        self.0.get_or_init(|| lines().with_writer(|| Stderr).into())
    }
}

/// There are no spans: [`lines`] adds the context to a line.
impl Subscriber for Lazy {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        self.subscriber().event(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
