#![doc = include_str!("../README.md")]

mod api_server;
mod arguments;
mod catalogue;
mod config_map;
mod conflists;
mod executables;
mod folder;
mod image;
mod in_use;
mod installed_file;
mod keeping;
mod kubeconfig;
mod manifest;
mod node;
mod placeholders;
mod runtime_view;
mod status;
mod uninstall;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use arguments::Arguments;
use keeping::Signals;
use node::Node;
use status::Status;

/// Reads the process's arguments, and executes them.
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
        return Ok(ExitCode::from(u8::from(!status.is_ready())));
    }
    let signals = Signals::install()?;
    let mut node = Node::new(arguments)?;
    if node.arguments.uninstall {
        uninstall(&node, &signals)?;
    } else if node.arguments.once {
        node.install(false)?;
        kubeconfig::put(&node.arguments)?;
        node.put_pools()?;
        node.put_conflists()?;
    } else {
        node.install(true)?;
        let kept = keeping::keep(&mut node, &signals);
        node.leave();
        kept?;
    }
    Ok(ExitCode::SUCCESS)
}

fn uninstall(node: &Node, signals: &Signals) -> Result<()> {
    uninstall::uninstall(node)?;
    if node.arguments.wait {
        let status = Status {
            version: format!("uninstalled by {}", node.image.version),
            ..Default::default()
        };
        status.write(&node.arguments.status_file)?;
        eprintln!("{}", status.text());
        signals.came_within(None)?;
    }
    node.leave();
    Ok(())
}
