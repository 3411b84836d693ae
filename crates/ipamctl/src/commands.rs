//! The commands, one file each.

pub(crate) mod blocks;
pub(crate) mod check;
mod collect_nodes;
pub(crate) mod explain;
pub(crate) mod gc;
pub(crate) mod import;
pub(crate) mod leaks;
pub(crate) mod ls;
pub(crate) mod map;
pub(crate) mod metrics;
pub(crate) mod node_forget;
mod node_register;
pub(crate) mod pools;
pub(crate) mod reconcile;
pub(crate) mod release;
pub(crate) mod show;

use std::process::ExitCode;

use anyhow::Result;
use cni::Environment;

use crate::arguments::{Arguments, Command};
use crate::node::Node;
use crate::output::Output;

/// Runs a command.
///
/// # Errors
///
/// What could not be done, and why.
pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> Result<ExitCode> {
    let output = Output::of_process(arguments.json, environment);
    let node = || Node::read(&arguments.places, environment);
    match &arguments.command {
        Command::Pools { network } => pools::run(network.as_deref(), &node(), output),
        Command::Ls(arguments) => ls::run(arguments, &node(), output),
        Command::Show { target } => show::run(target, &node(), output),
        Command::Map { network, svg } => map::run(network, svg.as_deref(), &node(), output),
        Command::Leaks { list } => leaks::run(list, &node(), output),
        Command::Gc(arguments) => gc::run(arguments, &node(), output),
        Command::Release(arguments) => release::run(arguments, &node(), output),
        Command::Check(check) => check::run(check, &arguments.places, environment, output),
        Command::Explain(explain) => explain::run(explain, &arguments.places, environment, output),
        Command::Blocks(arguments) => blocks::run(arguments, node, output),
        Command::Import(arguments) => import::run(arguments, node, output),
        Command::NodeForget(arguments) => node_forget::run(arguments, node, output),
        Command::CollectNodes(arguments) => collect_nodes::run(arguments, node, output),
        Command::NodeRegister(arguments) => {
            node_register::run(arguments, &node(), environment, output)
        }
        Command::Reconcile(arguments) => reconcile::run(arguments, node, output),
        Command::Metrics => metrics::run(&node(), output),
    }
}
