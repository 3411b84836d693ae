//! Asks an installed plugin for the versions of the specification that it supports.

use cni::{Command, DelegateName, Environment, NetworkConfig, SpecVersion};

use crate::call::delegate_call::{DelegateCall, Delegates};
use crate::call::installed_delegates::InstalledDelegates;
use crate::call::outcome::Outcome;
use crate::call::plugins::Plugins;
use crate::call::version_negotiation::supported_versions;
use crate::chain::Chain;
use crate::settings::Settings;

/// The longest that a plugin may take to say its versions: it only has to print a constant.
const MOST_FOR_VERSIONS: &str = "5s";

/// The versions of the specification that an installed plugin says it supports. One that
/// takes longer than five seconds is terminated with all that it has started.
///
/// # Errors
///
/// The reason: it is missing, it has failed, its answer is wrong.
pub fn versions(
    name: &DelegateName,
    version: SpecVersion,
    environment: &Environment,
) -> Result<Vec<String>, String> {
    let config = format!(
        r#"{{"cniVersion":"{version}","name":"version","ipam":{{"delegates":["{name}"],"delegateTimeout":"{MOST_FOR_VERSIONS}"}}}}"#
    );
    let config = NetworkConfig::parse(config.into_bytes()).map_err(|error| error.msg)?;
    let settings = Settings::read(&config, environment).map_err(|error| error.msg)?;
    let plugins = Plugins::in_cni_path(environment).map_err(|error| error.msg)?;
    let chain = Chain::with_settings(settings, &config, environment, plugins);
    let mut installed = InstalledDelegates::new(&chain, environment.clone());
    match installed.run(&DelegateCall::new(name, Command::Version, &config, None)) {
        Outcome::Result(output) => supported_versions(&output),
        Outcome::Nothing => Err("it prints nothing on VERSION".to_owned()),
        Outcome::Failed(failure) => Err(failure.to_error().msg),
    }
}
