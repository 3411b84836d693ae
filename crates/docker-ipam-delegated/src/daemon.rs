//! Runs the daemon: start, connections, end.
//!
//! At its start it locks its state folder, opens the socket, and reads the records of earlier daemons;
//! then `docker_calls` gives each call to one of the two drivers, in a separate thread. Two threads work
//! beside the calls: `sweep` asks Docker what it has and releases the rest, and `releases` repeats what
//! could not be released. At its end, the daemon waits for the running calls, up to a limit.

pub(crate) mod docker_calls;
mod releases;
mod sweep;

use std::fs::File;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::fs::OFlags;
use state_files::{StateFolder, lock_file};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::command_line::CommandLine;
use crate::daemon::docker_calls::Drivers;
use crate::http::connection::{self, Calls};
use crate::http::socket::{Socket, refused_peer};
use crate::ipam::ipam_driver::IpamDriver;
use crate::network::network_driver::NetworkDriver;

/// Connections at once. More wait to be accepted.
const CONNECTIONS: usize = 1024;

/// Runs the daemon until it gets SIGTERM or SIGINT.
pub(crate) fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(arguments.log)
        // systemd's journal has the time.
        .without_time()
        .with_target(false)
        .init();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &CommandLine) -> Result<()> {
    // Before the socket: if another daemon has the folder, this one must fail without taking the
    // socket.
    let _lock = lock_state(&arguments.state_dir)?;
    let socket = Socket::open(&arguments.socket)?;
    // One thread serves all connections. Each call runs in a separate thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        // One for each call, and some for what is done after the answers.
        .max_blocking_threads(CONNECTIONS + 64)
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(arguments, socket));
    // A call that is still running is not waited for.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: &CommandLine, mut socket: Socket) -> Result<()> {
    let mut stop = pin!(stop_requested()?);
    let starting = arguments.clone();
    let starting = spawn_blocking(move || start(&starting));
    let calls = tokio::select! {
        () = &mut stop => return Ok(()),
        started = starting => started??,
    };
    let listener = socket.listener.try_clone().context("the socket")?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    tracing::info!("listening");
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if connections.len() < CONNECTIONS => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(connections.spawn(connection(&calls, stream))),
            Err(error) => {
                // Such as too many open files: other connections end, and free theirs.
                tracing::warn!(%error, "a connection can't be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    tracing::info!("ending after the calls that are running");
    // A later call finds no socket, and Docker repeats it.
    let is_ours = socket.remove_file();
    // Who has connected before is served. systemd keeps its own socket for the next daemon.
    while is_ours && let Ok(Ok((stream, _))) = timeout(Duration::ZERO, listener.accept()).await {
        connections.spawn(connection(&calls, stream));
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let at_most = Duration::from_secs(arguments.stop_timeout);
    if timeout(at_most, all).await.is_err() {
        tracing::warn!("calls are still running; what they did is undone at the next start");
    }
    Ok(())
}

fn connection(calls: &Arc<Calls>, stream: UnixStream) -> impl Future<Output = ()> + use<> {
    let peer = stream.peer_cred().map(|credentials| credentials.uid());
    connection::serve(Arc::clone(calls), stream, refused_peer(peer))
}

/// The lock of the state folder, held until it is dropped.
///
/// # Errors
///
/// Another daemon has it; an I/O error.
fn lock_state(state_dir: &Path) -> Result<File> {
    let locked = || {
        let lock = StateFolder::create(state_dir)?.create_file("lock", OFlags::RDWR)?;
        let is_locked = lock_file(&lock, state_dir, Some(Duration::ZERO), None)?;
        ensure!(is_locked, "another daemon has it");
        Ok(lock)
    };
    locked().with_context(|| state_dir.display().to_string())
}

/// Starts the drivers: reads the records of earlier daemons. What they have left is released
/// meanwhile.
fn start(arguments: &CommandLine) -> Result<Arc<Calls>> {
    let (due, is_due) = sync_channel(1);
    let drivers = Drivers {
        ipam: IpamDriver::new(arguments, due),
        networks: NetworkDriver::new(arguments)?,
        busy: Arc::default(),
    };
    drivers.ipam.read_all_records()?;
    drivers.networks.read_unfinished();
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    let sweeping = drivers.clone();
    named("sweep").spawn(move || sweeping.sweep_when_due(&is_due))?;
    let repeating = drivers.clone();
    named("releases").spawn(move || repeating.repeat_releases_for_ever())?;
    Ok(Arc::new(move |path, body| drivers.answer(path, body)))
}

/// Takes SIGTERM and SIGINT from now on; the future ends with the first one.
///
/// # Errors
///
/// An I/O error of `sigaction` or of the signals' pipe.
fn stop_requested() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
