#![doc = include_str!("../README.md")]

mod arguments;
mod check;
mod clusters;
mod commands;
mod container_list;
mod evidence;
mod inventory;
mod leases;
mod local_node;
mod network;
mod output;
mod pools;
mod release;
mod selectors;
mod usage;

use std::env;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use cni::Environment;
use tracing::level_filters::LevelFilter;

pub use arguments::Arguments;

/// What a command works on: the folders of the command line, the environment, the form of the output.
pub(crate) struct Context<'a> {
    pub(crate) sources: &'a arguments::Sources,
    pub(crate) environment: &'a Environment,
    /// True for JSON.
    pub(crate) json: bool,
}

/// The command line, for its man page and its completions.
pub fn command_line() -> clap::Command {
    Arguments::command()
}

/// Reads the process's arguments and environment, and runs the command.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(LevelFilter::WARN)
        .with_target(false)
        .with_ansi(false)
        .without_time()
        .init();
    let environment: Environment = env::vars_os().collect();
    let context = Context {
        sources: &arguments.sources,
        environment: &environment,
        json: arguments.json,
    };
    match commands::run(&arguments.command, &context) {
        Ok(has_findings) => ExitCode::from(u8::from(has_findings)),
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::warn(format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
