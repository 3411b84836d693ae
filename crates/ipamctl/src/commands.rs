//! The commands, one file each.

mod blocks;
mod check;
mod collect_nodes;
mod explain;
mod gc;
mod import;
mod leaks;
mod ls;
mod map;
mod metrics;
mod node_forget;
mod node_register;
mod pools;
mod reconcile;
mod release;
mod show;

use anyhow::Result;

use crate::arguments::Command;
use crate::context::Context;

/// Runs a command; true if it has findings, such as leaks.
///
/// # Errors
///
/// The operation that failed, and the reason.
pub(crate) fn run(command: &Command, context: &Context<'_>) -> Result<bool> {
    match command {
        Command::Pools { network } => pools::run(network.as_deref(), context),
        Command::Ls(arguments) => ls::run(arguments, context),
        Command::Show { target } => show::run(target, context),
        Command::Map { network, svg } => map::run(network, svg.as_deref(), context),
        Command::Leaks { list } => leaks::run(list, context),
        Command::Gc(arguments) => gc::run(arguments, context),
        Command::Release(arguments) => release::run(arguments, context),
        Command::Check(arguments) => check::run(arguments, context),
        Command::Explain(arguments) => explain::run(arguments, context),
        Command::Blocks(arguments) => blocks::run(arguments, context),
        Command::Import(arguments) => import::run(arguments, context),
        Command::NodeForget(arguments) => node_forget::run(arguments, context),
        Command::CollectNodes(arguments) => collect_nodes::run(arguments, context),
        Command::NodeRegister(arguments) => node_register::run(arguments, context),
        Command::Reconcile(arguments) => reconcile::run(arguments, context),
        Command::Metrics => metrics::run(context),
    }
}
