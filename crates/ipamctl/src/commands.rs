//! The commands, one file each. Most of them read the [`Inventory`](crate::inventory::Inventory), choose
//! some of its rows or attachments, and print these as JSON by serde, or as a [`Table`] for people.
//! Those that change something, `gc` and `release`, act on attachments through [`crate::release`]; those
//! of a cluster, on its store through [`crate::clusters`]. Each returns whether it has findings, which is
//! the exit status.
//!
//! [`Table`]: crate::output::table::Table

mod address_outcome;
mod check;
mod explain;
mod gc;
mod import;
mod leaks;
mod ls;
mod map;
mod metrics;
mod node_forget;
mod pools;
mod reconcile;
mod release;
mod show;

use anyhow::Result;

use crate::Context;
use crate::arguments::Command;

/// Runs a command; true if it has findings, such as leaks.
///
/// # Errors
///
/// The operation that failed, and the reason.
pub(crate) fn run(command: &Command, context: &Context<'_>) -> Result<bool> {
    match command {
        Command::Pools { network } => pools::run(network.as_deref(), context),
        Command::Ls(arguments) => ls::run(arguments, context),
        Command::Show(target) => show::run(target, context),
        Command::Map { network } => map::run(network, context),
        Command::Leaks(list) => leaks::run(list, context),
        Command::Gc(arguments) => gc::run(arguments, context),
        Command::Release(arguments) => release::run(arguments, context),
        Command::Check(arguments) => check::run(arguments, context),
        Command::Explain(arguments) => explain::run(arguments, context),
        Command::Metrics => metrics::run(context),
        Command::Import(arguments) => import::run(arguments, context),
        Command::NodeForget(arguments) => node_forget::run(arguments, context),
        Command::Reconcile { node } => reconcile::run(node.as_deref(), context),
    }
}
