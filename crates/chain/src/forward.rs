//! Calls an IPAM plugin that is no delegate of a chain, as a main plugin does.

use cni::{Command, DelegateName, Environment, Error, NetworkConfig};

use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::event::Observer;
use crate::plugins::Plugins;
use crate::settings::Settings;
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;

/// Executes an IPAM plugin with GC or STATUS, with this configuration and environment.
/// A plugin of a version without the command is passed over.
///
/// The plugin may be, or run, a chain itself. `owns_process` is as
/// [`crate::Chain::owning_its_process`] has it.
///
/// # Errors
///
/// The plugin's, with its name; code 4 if `CNI_PATH` is missing or empty.
pub fn forward(
    command: Command,
    plugin: &DelegateName,
    config: &NetworkConfig,
    environment: &Environment,
    observer: &dyn Observer,
    owns_process: bool,
) -> Result<(), Error> {
    let settings = Settings::of_one(plugin.clone());
    let plugins = Plugins::in_cni_path(environment)?;
    let mut context = Context::new(settings, config, environment, plugins);
    context.observer = Some(observer);
    context.owns_process = owns_process;
    let steps = Step::all(&context.settings.delegates, context.config);
    let delegates = InstalledDelegates::unmarked(&context, environment.clone());
    let mut delegates = VersionNegotiation::new(delegates);
    let failed = Steps::new(&mut delegates, None).run(command, &steps, None, OnFailure::Stop);
    let first = failed.into_iter().next();
    first.map_or(Ok(()), |failed| Err(failed.into_error()))
}
