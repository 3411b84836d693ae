//! Catches SIGINT and SIGTERM, so that the benchmark removes its keys before it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, the signals only set a flag.
pub(crate) fn watch() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(())
}

/// Fails after a signal.
pub(crate) fn check() -> Result<()> {
    let flag = INTERRUPTED.get();
    let interrupted = flag.is_some_and(|flag| flag.load(Ordering::Relaxed));
    ensure!(!interrupted, "interrupted");
    Ok(())
}
