//! Library of the fuzz targets: generators of nearly valid inputs, calls of the plugins
//! within this process, and sandboxes for their files.
//!
//! Random bytes never get past a JSON parser, so an input is a valid document or
//! file, a *seed*, and a few changes to it. The engine chooses the changes: at
//! random in the ordinary tests, by coverage in a long run. `docs/contributing.md` says
//! how both are run.

mod call;
mod document;
mod edit;
mod fragment;
mod sandbox;
mod text;
mod watch;
mod word;

pub use call::{Outcome, call, environment};
pub use document::Document;
pub use edit::Edit;
pub use fragment::Fragment;
pub use sandbox::{Sandbox, Snapshot};
pub use text::Bytes;
pub use watch::watched;
pub use word::Word;

/// Time that each target has for its inputs in the ordinary tests. It tries as many as it can; set
/// `BOLERO_RANDOM_TEST_TIME_MS` for another time.
pub const TEST_TIME: std::time::Duration = std::time::Duration::from_secs(2);
