#![doc = include_str!("../README.md")]

mod api_server;
mod arguments;
mod check;
mod config;
mod failed_dels;
mod image;
mod mark;
mod node;
mod path_context;
mod staged;
mod status;
mod time_limit;
mod uninstall;
mod wanted;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

use arguments::Arguments;
use node::Node;
use status::Status;

/// Longest wait of a call that ends by itself for another installer.
const MOST_FOR_LOCK: Duration = Duration::from_secs(20);

/// Interval between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval while there is a problem.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Reads the process's arguments, and executes them.
pub fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(is_success) => ExitCode::from(u8::from(!is_success)),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<bool> {
    if arguments.probe {
        let (is_ready, text) = status::probe(&arguments.status_file)?;
        println!("{text}");
        return Ok(is_ready);
    }
    if arguments.once || arguments.uninstall && !arguments.wait {
        let mut node = Node::new(arguments)?;
        node.lock(MOST_FOR_LOCK)?;
        node.look()?;
        return Ok(true);
    }
    // The first process of a container ignores a signal without a handler. What a look has begun,
    // the next installer completes.
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, Arc::new(AtomicBool::new(true)))?;
    }
    let status = Status::listen(&arguments.status_file)?;
    let mut node = Node::new(arguments)?;
    let mut repeats_dels = false;
    loop {
        let mut looked = node.lock(Duration::ZERO);
        if looked.is_ok() && !repeats_dels {
            failed_dels::start(&node);
            repeats_dels = true;
        }
        looked = looked.and_then(|()| node.look());
        let version = &node.image.version;
        let (pause, text) = match looked {
            Err(error) => (RETRY_INTERVAL, format!("not ready: {version}: {error:#}")),
            Ok(()) if node.arguments.uninstall => {
                (Duration::MAX, format!("ready: uninstalled by {version}"))
            }
            Ok(()) => (LOOK_INTERVAL, format!("ready: {version}")),
        };
        status.set(text);
        sleep(pause);
    }
}
