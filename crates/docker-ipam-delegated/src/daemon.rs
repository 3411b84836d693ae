//! The daemon: from the command line to its end.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::calls::Drivers;
use crate::command_line::CommandLine;
use crate::connection::{self, Server};
use crate::memory::Memory;
use crate::shutdown::{self, Signals};
use crate::socket::{self, Socket};
use crate::{network_recovery, recovery, unanswered};

/// Connections at once. More wait to be accepted.
const CONNECTIONS: usize = 1024;

/// Calls of the network driver at once.
const NETWORKS_AT_ONCE: usize = 32;

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
    // Before there is a second thread: it sets the umask.
    let socket = Socket::open(&arguments.socket)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(serve(arguments, socket))
}

async fn serve(arguments: &CommandLine, socket: Socket) -> Result<()> {
    let mut signals = Signals::new()?;
    let memory = Arc::new(Memory::open(&arguments.state_dir)?);
    let ipam = recovery::driver(arguments, Arc::clone(&memory))?;
    let networks = network_recovery::driver(arguments, memory)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = Arc::new(Server {
        drivers: Drivers {
            ipam: Arc::clone(&ipam),
            networks: Arc::clone(&networks),
        },
        networks_at_once: Arc::new(Semaphore::new(NETWORKS_AT_ONCE)),
        at_once: Arc::new(Semaphore::new(cores.max(2) * 4)),
    });
    tokio::spawn(async move {
        tokio::time::sleep(unanswered::PATIENCE).await;
        ipam.forget_unanswered();
        networks.forget_unanswered();
    });
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
                let refused = socket::refused(stream.peer_cred().map(|it| it.uid()));
                let server = Arc::clone(&server);
                connections.spawn(async move {
                    connection::serve(server, stream, refused).await;
                    drop(slot);
                });
            }
            Err(error) => {
                // Such as too many open files: others end meanwhile.
                tracing::warn!(%error, "a connection can't be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
    tracing::info!("ending after the calls that are running");
    // Nobody else can connect.
    drop((listener, socket));
    shutdown::finish(connections).await;
    Ok(())
}

async fn accept(
    listener: &UnixListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(UnixStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}
