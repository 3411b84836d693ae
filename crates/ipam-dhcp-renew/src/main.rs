#![doc = include_str!("../README.md")]

mod due;
mod records;
mod schedule;
mod visit;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use records::Look;
use schedule::Schedule;

/// Interval in which new and removed records are noticed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Renews the leases that ipam-da-dhcp has taken.
#[derive(Parser)]
#[command(version = plugin::version_with_commit())]
struct Arguments {
    /// A folder of records; may be repeated. By default those of the network configurations.
    #[arg(long, value_name = "DIR")]
    state_dir: Vec<PathBuf>,
    /// A folder of network configurations; may be repeated.
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    conf_dir: Vec<PathBuf>,
    /// Look once, renew what is due, and end.
    #[arg(long)]
    once: bool,
    /// The lowest level that is logged: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: tracing::Level,
}

/// Runs the daemon. SIGTERM and SIGINT end it at once: nothing is lost by that. SIGHUP changes
/// nothing: it looks each second. `--once` fails if something is wrong with an attachment, or
/// unknown.
fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_max_level(arguments.log)
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr)
        .init();
    for signal in [SIGTERM, SIGINT] {
        flag::register_conditional_shutdown(signal, 0, Arc::new(AtomicBool::new(true)))?;
    }
    flag::register(SIGHUP, Arc::default())?;
    if !arguments.once {
        tracing::info!(version = plugin::version_with_commit(), "started");
    }
    let mut schedule = Schedule::default();
    let mut warned = Vec::new();
    let mut is_start = !arguments.once;
    loop {
        let look = Look::at(&arguments);
        // A problem that stays is said once.
        for problem in look.problems.iter().filter(|of| !warned.contains(*of)) {
            tracing::warn!("{problem}");
        }
        warned.clone_from(&look.problems);
        schedule.note(look, is_start);
        is_start = false;
        let is_well = schedule.visit_due();
        if arguments.once {
            return Ok(ExitCode::from(u8::from(!is_well || !warned.is_empty())));
        }
        sleep(INTERVAL);
    }
}
