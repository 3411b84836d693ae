//! Runs requests, each to its end.

use cluster::{EngineError, Kind};
use tokio::runtime::{Builder, Runtime};

/// The runtime of a client's requests.
pub(super) struct Executor(Option<Runtime>);

impl Executor {
    pub(super) fn new() -> Result<Self, EngineError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let failed =
            |error| EngineError::new(Kind::Unable, format!("the client can't start: {error}"));
        Ok(Self(Some(runtime.map_err(failed)?)))
    }

    pub(super) fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until the drop");
        runtime.block_on(request)
    }
}

impl Drop for Executor {
    /// Doesn't wait for a thread that looks up a host's name: a name server that is silent
    /// would hold the call for longer than its timeout.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
