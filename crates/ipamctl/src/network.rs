//! A network of `ipam-delegated` or `host-local`: its configuration, its delegates and its folders.
//!
//! The commands treat `host-local` as a chain with one delegate, so that one way of release is enough. A
//! [`Network`] is read from a conflist, or from the configuration in a record.

use std::path::{Path, PathBuf};

use chain::record::state_dir;
use cluster::Engine;
use cni::{DelegateName, Environment, Error, NetworkConfig, NetworkName, Object};
use conflist::{Conflist, PluginEntry};
use reservations::DATA_DIR;

/// The IPAM plugin that runs a chain.
pub(crate) const IPAM_DELEGATED: &str = "ipam-delegated";

/// The reference IPAM plugin; `ipam-da-host-local` uses its directories.
pub(crate) const HOST_LOCAL: &str = "host-local";

/// The selector with host-local's configuration.
pub(crate) const IPAM_DS_RANGES: &str = "ipam-ds-ranges";

/// The selector by rules.
pub(crate) const IPAM_DS_RULES: &str = "ipam-ds-rules";

/// The allocator of host-local's directories.
pub(crate) const IPAM_DA_HOST_LOCAL: &str = "ipam-da-host-local";

/// The plugin that brings GC past a main plugin.
pub(crate) const IPAM_GC: &str = "ipam-gc";

#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) name: NetworkName,
    /// The file that configures it.
    pub(crate) file: PathBuf,
    /// The main plugin: the one with the `ipam` section.
    pub(crate) main: PluginEntry,
    /// The configuration of the IPAM plugin, without the keys of a call.
    pub(crate) config: NetworkConfig,
    /// The delegates; for host-local without a chain, host-local.
    pub(crate) delegates: Vec<DelegateName>,
    /// True if the IPAM plugin is host-local itself.
    pub(crate) is_host_local: bool,
    /// Folder with the directories of reservations.
    pub(crate) data_dir: PathBuf,
    /// Folder with the records.
    pub(crate) state_dir: PathBuf,
}

impl Network {
    /// The network of a conflist; `None` if it has another IPAM plugin.
    ///
    /// # Errors
    ///
    /// As [`Self::of_plugin`].
    pub(crate) fn of(list: &Conflist, environment: &Environment) -> Result<Option<Self>, Error> {
        let first = Self::each_of(list, environment).next();
        first.map(|(_, network)| network).transpose()
    }

    /// The network of each plugin of a conflist that gets its addresses from a chain or from
    /// host-local, with the plugin's index.
    pub(crate) fn each_of(
        conflist: &Conflist,
        environment: &Environment,
    ) -> impl Iterator<Item = (usize, Result<Self, Error>)> {
        let is_ours = |ipam_type| matches!(ipam_type, Some(IPAM_DELEGATED | HOST_LOCAL));
        let plugins = conflist.plugins.iter().enumerate();
        let main = plugins.filter(|(_, plugin)| plugin.kind != IPAM_GC);
        let ours = main.filter(move |(_, plugin)| is_ours(plugin.ipam_type.as_deref()));
        ours.map(|(i, plugin)| (i, Self::of_plugin(&conflist.file, plugin, environment)))
    }

    /// The network of a plugin with an `ipam` section, as a file configures it.
    ///
    /// # Errors
    ///
    /// Its configuration can't be used. The error names key and value.
    pub(crate) fn of_plugin(
        file: &Path,
        main: &PluginEntry,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let is_host_local = main.ipam_type.as_deref() == Some(HOST_LOCAL);
        let mut config = main.request.clone();
        if is_host_local {
            // So that a chain can run its DEL. host-local ignores the additional key.
            config = with_keys(&config, |_, ipam| ipam.set("delegates", &[HOST_LOCAL]))?;
        }
        let ipam = config.ipam()?;
        let mut network = Self {
            name: config.name().clone(),
            file: file.to_owned(),
            main: main.clone(),
            delegates: ipam::delegates(&config)?,
            is_host_local,
            data_dir: DATA_DIR.into(),
            state_dir: state_dir(&ipam, environment)?,
            config,
        };
        // An allocator that isn't ours may mean anything by this key.
        if network.keeps_files()
            && let Some(data_dir) = ipam.absolute_path("ipam", "dataDir")?
        {
            network.data_dir = data_dir;
        }
        Ok(network)
    }

    /// The `ipam` section; empty if it is missing or no object.
    pub(crate) fn ipam(&self) -> Object {
        self.config.ipam().unwrap_or_default()
    }

    /// True if one of the delegates has this name.
    pub(crate) fn has_delegate(&self, name: &str) -> bool {
        let mut delegates = self.delegates.iter();
        delegates.any(|delegate| delegate.as_str() == name)
    }

    /// True if addresses are kept in host-local's directories.
    pub(crate) fn keeps_files(&self) -> bool {
        self.has_delegate(IPAM_DA_HOST_LOCAL) || self.has_delegate(HOST_LOCAL)
    }
}

/// The configuration with changed keys, at its top level and in `ipam`.
///
/// # Errors
///
/// The configuration, or its `ipam`, is no object.
pub(crate) fn with_keys(
    config: &NetworkConfig,
    change: impl FnOnce(&mut Object, &mut Object),
) -> Result<NetworkConfig, Error> {
    let mut object: Object = cni::read("configuration", &config.to_raw())?;
    let mut ipam = config.ipam()?;
    change(&mut object, &mut ipam);
    object.set("ipam", &ipam);
    NetworkConfig::parse(serde_json::to_vec(&object).expect("an object is JSON"))
}

/// The index of the delegate that is an engine's allocator, and the engine.
pub(crate) fn engine_of<'d>(
    delegates: impl IntoIterator<Item = &'d DelegateName>,
) -> Option<(usize, &'static dyn Engine)> {
    let engines: [&dyn Engine; 2] = [&etcd::ENGINE, kubernetes::ENGINE];
    let mut numbered = delegates.into_iter().enumerate();
    numbered.find_map(|(at, delegate)| {
        let mut engines = engines.into_iter();
        let engine = engines.find(|engine| delegate.as_str() == engine.allocator())?;
        Some((at, engine))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(plugins: &str) -> Result<Option<Network>, String> {
        let content = format!(r#"{{"cniVersion":"1.0.0","name":"n","plugins":[{plugins}]}}"#);
        let list = Conflist::parse(Path::new("/nowhere/n.conflist"), content.as_bytes())?;
        Network::of(&list, &Environment::default()).map_err(|error| error.msg)
    }

    fn of_record(config: NetworkConfig) -> Result<Network, Error> {
        let plugin = PluginEntry::of_request(config);
        Network::of_plugin(Path::new("/r"), &plugin, &Environment::default())
    }

    #[test]
    fn host_local_is_a_chain_of_one_delegate() {
        let read = network(r#"{"type":"bridge","ipam":{"type":"host-local","dataDir":"/d"}}"#);
        let network = read.unwrap().unwrap();
        assert!(network.is_host_local && network.keeps_files());
        assert_eq!(network.data_dir, Path::new("/d"));
        let names: Vec<&str> = network.delegates.iter().map(DelegateName::as_str).collect();
        assert_eq!(names, [HOST_LOCAL]);
    }

    #[test]
    fn the_plugin_with_the_ipam_section_counts_in_any_position() {
        let chain = r#""ipam":{"type":"ipam-delegated","delegates":["a"],"stateDir":"/s"}"#;
        let read = network(&format!(
            r#"{{"type":"tuning"}},{{"type":"ptp",{chain}}},{{"type":"ipam-gc",{chain}}}"#
        ));
        let ptp = read.unwrap().unwrap();
        assert_eq!((ptp.main.kind.as_str(), ptp.is_host_local), ("ptp", false));
        assert_eq!(ptp.state_dir, Path::new("/s"));
        assert!(
            network(r#"{"type":"ptp","ipam":{"type":"dhcp"}}"#)
                .unwrap()
                .is_none()
        );
        assert!(network(r#"{"type":"ptp"}"#).unwrap().is_none());
    }

    #[test]
    fn a_record_is_read_whatever_add_has_accepted() {
        for keys in [
            r#""ipam":{"delegates":["ipam-da-host-local"],"DataDir":"/d"}"#,
            r#""plugins":7,"ipam":{"type":"x","delegates":["ipam-da-host-local"],"dataDir":"/d"}"#,
        ] {
            let json = format!(r#"{{"cniVersion":"1.0.0","name":"n",{keys}}}"#);
            let config = NetworkConfig::parse(json.into_bytes()).unwrap();
            let network = of_record(config).unwrap();
            assert!(network.keeps_files() && !network.is_host_local);
            assert_eq!(
                (network.name.as_str(), &*network.data_dir),
                ("n", Path::new("/d"))
            );
        }
        let keys = r#""ipam":{"delegates":["other"],"dataDir":7}"#;
        let config =
            NetworkConfig::parse(format!(r#"{{"cniVersion":"1.0.0","name":"n",{keys}}}"#).into());
        assert!(of_record(config.unwrap()).is_ok());
    }

    #[test]
    fn a_wrong_setting_names_the_key() {
        for (ipam, key) in [
            (r#""type":"host-local","dataDir":"d""#, "ipam.dataDir"),
            (
                r#""type":"ipam-delegated","delegates":["ipam-da-host-local"],"dataDir":"d""#,
                "ipam.dataDir",
            ),
            (r#""type":"ipam-delegated","stateDir":"s""#, "ipam.stateDir"),
            (r#""type":"ipam-delegated","delegates":7"#, "ipam.delegates"),
        ] {
            let error = network(&format!(r#"{{"type":"ptp","ipam":{{{ipam}}}}}"#)).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }
}
