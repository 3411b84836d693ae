//! Stops the clock of one process, with a library that is loaded before the C library.

use std::path::PathBuf;
use std::process::Command;

use crate::build::dynamic_plugins;
use crate::{Call, Sandbox, repository};

/// The C compiler, which every machine that builds the plugins has.
pub const CC: &str = "/usr/bin/cc";

/// The library. It works in executables that are linked to the shared C library.
pub struct StoppedClock {
    library: PathBuf,
}

impl StoppedClock {
    /// Compiles the library for this sandbox, whose verbose plugins can be stopped then.
    pub fn new(sandbox: &Sandbox) -> Self {
        sandbox.link_plugins(&dynamic_plugins());
        let library = sandbox.root().join("clock.so");
        let built = Command::new(CC)
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(repository().join("testdata/clock/clock.c"))
            .status();
        assert!(built.unwrap().success());
        Self { library }
    }

    /// Stops the call's clock at this Unix time, in seconds.
    pub fn set(&self, call: Call, seconds: i64) -> Call {
        call.env("LD_PRELOAD", &self.library)
            .env("CLOCK", seconds.to_string())
    }
}
