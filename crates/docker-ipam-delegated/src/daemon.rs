//! Runs the daemon: start, connections, end.

pub(crate) mod comparison;
pub(crate) mod docker_calls;
mod shutdown;
mod upkeep;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};

use crate::command_line::CommandLine;
use crate::daemon::comparison::Comparison;
use crate::daemon::docker_calls::Drivers;
use crate::daemon::shutdown::Signals;
use crate::http::connection::{self, Calls};
use crate::http::peers;
use crate::http::socket::Socket;
use crate::ipam::ipam_driver::IpamDriver;
use crate::network::network_driver::NetworkDriver;
use crate::state::files::Files;

/// Connections at once. More wait to be accepted.
const CONNECTIONS: usize = 1024;

/// Runs the daemon until it gets SIGTERM or SIGINT.
pub fn main() -> ExitCode {
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
    // Before the socket: two daemons with the same files must not have one socket after the
    // other.
    let files = Files::open(&arguments.state_dir)?;
    // Before there is a second thread: it sets the umask.
    let socket = Socket::open(&arguments.socket)?;
    // One thread serves all connections. Calls run in threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        // One for each call, and some for what is done after the answers.
        .max_blocking_threads(CONNECTIONS + 64)
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(arguments, Arc::new(files), socket));
    // A call that still runs is left.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: &CommandLine, files: Arc<Files>, socket: Socket) -> Result<()> {
    let mut signals = Signals::new()?;
    let starting = arguments.clone();
    let starting = spawn_blocking(move || start(&starting, files));
    let calls = tokio::select! {
        () = signals.received() => return Ok(()),
        started = starting => started??,
    };
    let listener = socket.listener.try_clone().context("the socket")?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    tracing::info!("listening");
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = signals.received() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                let refused =
                    peers::refused(stream.peer_cred().map(|credentials| credentials.uid()));
                let calls = Arc::clone(&calls);
                connections.spawn(async move {
                    connection::serve(calls, stream, refused).await;
                    drop(slot);
                });
            }
            Err(error) => {
                // Such as too many open files: others end meanwhile.
                tracing::warn!(%error, "a connection can't be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    tracing::info!("ending after the calls that are running");
    // Nobody else can connect.
    drop((listener, socket));
    shutdown::finish(connections, Duration::from_secs(arguments.stop_timeout)).await;
    Ok(())
}

/// The drivers, with what they remember, after what an earlier daemon left is undone.
fn start(arguments: &CommandLine, files: Arc<Files>) -> Result<Arc<Calls>> {
    let (due, is_due) = sync_channel(1);
    let ipam = IpamDriver::new(arguments, Arc::clone(&files), due);
    let networks = NetworkDriver::new(arguments, files);
    ipam.take_in()?;
    networks.take_in()?;
    tracing::info!(pools = ipam.pools.all().len(), "recovered");
    let comparison = Comparison {
        ipam: Arc::clone(&ipam),
        networks: Arc::clone(&networks),
        docker: arguments.docker_socket.clone(),
        after: arguments.unanswered_after,
    };
    ipam.compare();
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    named("comparison").spawn(move || comparison.run(&is_due))?;
    upkeep::first(&ipam, &networks);
    let upkeep = (Arc::clone(&ipam), Arc::clone(&networks));
    named("upkeep").spawn(move || upkeep::run(&upkeep.0, &upkeep.1))?;
    let drivers = Drivers { ipam, networks };
    Ok(Arc::new(move |path, body| drivers.answer(path, body)))
}

async fn accept(
    listener: &UnixListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(UnixStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}
