#![doc = include_str!("../README.md")]

mod api_server;
mod arguments;
mod catalogue;
mod conflists;
mod contents;
mod folder;
mod keeping;
mod node;
mod node_subnets;
mod owner;
mod placeholders;
mod release;
mod runtime_view;
mod source;
mod standing;
mod status;
mod verify;
mod watch;
mod work_folder;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use arguments::Arguments;
pub use contents::FileState;
pub use folder::{Folder, Foreign, Installed};
use node::Node;
use status::Status;
use watch::{Part, Signals};

/// Reads the process's arguments, and does what they say.
pub fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.probe {
        let status = Status::read(&arguments.status_file)?;
        println!("{}", status.text());
        return Ok(if status.is_ready() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    // The first process of a container ignores signals that it has no handler for.
    let signals = Signals::install()?;
    let mut node = Node::new(arguments)?;
    if node.arguments.uninstall {
        uninstall(&node, &signals)?;
    } else if node.arguments.once {
        node.install(false)?;
        for part in [Part::Pools, Part::Conflists] {
            if node.parts().contains(&part) {
                node.put_right(part)?;
            }
        }
    } else {
        node.install(true)?;
        let kept = keeping::keep(&mut node, &signals);
        node.leave();
        kept?;
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(node: &Node, signals: &Signals) -> Result<()> {
    if !node.arguments.even_in_use {
        standing::refuse(&node.arguments, &node.release.tool_path())?;
    }
    node.uninstall()?;
    if node.arguments.wait {
        let status = Status {
            version: format!("uninstalled by {}", node.release.version),
            ..Default::default()
        };
        status.write(&node.arguments.status_file)?;
        eprintln!("{}", status.text());
        signals.came_within(None)?;
    }
    node.leave();
    Ok(())
}
