//! The normal flavour: warnings and errors to stderr.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use super::Stderr;
use super::who::lines;

pub(crate) fn init(_plugin: &str) {
    let _ = tracing::subscriber::set_global_default(WhenNeeded::default());
}

pub(super) fn with_log_of<T>(_plugin: &str, call: impl FnOnce() -> T) -> T {
    call()
}

/// The library's subscriber, made for the first line. Most calls have none, and to
/// make it takes a twentieth of an ADD.
#[derive(Default)]
struct WhenNeeded(OnceLock<Dispatch>);

impl WhenNeeded {
    fn made(&self) -> &Dispatch {
        self.0.get_or_init(|| lines().with_writer(Stderr).into())
    }
}

/// No plugin has spans: what a call's lines carry, [`lines`] know.
impl Subscriber for WhenNeeded {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        self.made().event(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
