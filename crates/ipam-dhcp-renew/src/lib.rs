#![doc = include_str!("../README.md")]

mod due;
mod records;
mod schedule;
mod visit;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use records::Places;
use schedule::{Schedule, visit_once};

/// Interval in which new and removed records are noticed.
const LOOK: Duration = Duration::from_secs(1);

/// Interval in which a signal is noticed.
const SIGNAL: Duration = Duration::from_millis(100);

/// Renews the leases that ipam-da-dhcp has taken.
#[derive(Clone, Debug, Parser)]
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

/// Runs the daemon until SIGTERM or SIGINT. SIGHUP has it read the configurations at once.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_max_level(arguments.log)
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr)
        .init();
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns false if `--once` has failed for an attachment.
fn run(arguments: Arguments) -> Result<bool> {
    let [is_ended, reads_again] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&is_ended))?;
    }
    flag::register(SIGHUP, Arc::clone(&reads_again))?;
    let mut places = Places::new(arguments.state_dir, arguments.conf_dir);
    if arguments.once {
        return Ok(visit_once(&places));
    }
    let mut schedule = Schedule::default();
    tracing::info!(version = plugin::version_with_commit(), "started");
    while !is_ended.load(Ordering::Relaxed) {
        if reads_again.swap(false, Ordering::Relaxed) {
            places.read_again();
        }
        schedule.look(&places);
        schedule.visit_due();
        let rest = Instant::now() + LOOK.min(schedule.until_next());
        while Instant::now() < rest && !is_ended.load(Ordering::Relaxed) {
            sleep(SIGNAL.min(rest.saturating_duration_since(Instant::now())));
        }
    }
    tracing::info!("ended by a signal");
    Ok(true)
}
