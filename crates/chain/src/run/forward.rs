//! GC and STATUS of an IPAM plugin that is no delegate of a chain.

use cni::{Command, DelegateName, Environment, Error, NetworkConfig};

use crate::call::event::Observer;
use crate::call::installed_delegates::InstalledDelegates;
use crate::call::plugins::Plugins;
use crate::chain::Chain;
use crate::run::failed_delegate::first_error;
use crate::run::step::Step;
use crate::run::steps::{OnFailure, Steps};
use crate::settings::Settings;

/// Executes an IPAM plugin with GC or STATUS, with this configuration and environment.
/// A plugin of a version without the command is passed over.
///
/// The plugin may be, or run, a chain itself. `owns_process` is as
/// [`Chain::owning_its_process`] has it.
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
    let chain = Chain::with_settings(settings, config, environment, plugins)
        .observed_by(observer)
        .owning_its_process(owns_process);
    let steps = Step::all(&chain.settings.delegates, chain.config);
    let mut delegates = InstalledDelegates::unmarked(&chain, environment.clone());
    let mut steps_run = Steps::new(&mut delegates, None);
    first_error(steps_run.run(command, &steps, None, OnFailure::Stop))
}
