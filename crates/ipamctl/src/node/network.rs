//! A network whose addresses ipam-delegated or host-local gives, and its folders.

use std::path::PathBuf;
use std::rc::Rc;

use chain::record::state_dir;
use cluster::ConfiguredCluster;
use cni::{DelegateName, Environment, NetworkConfig, NetworkName, Object};
use conflist::{Conflist, PluginEntry};
use ipam_da_host_local::Folders;

use crate::shared_pools::engines::EngineKind;

/// The IPAM plugin that runs a chain.
pub(crate) const CHAIN: &str = "ipam-delegated";

/// The reference IPAM plugin whose directories are ours, too.
pub(crate) const HOST_LOCAL: &str = "host-local";

/// The selector with host-local's configuration.
pub(crate) const RANGES: &str = "ipam-ds-ranges";

/// The selector by rules.
pub(crate) const RULES: &str = "ipam-ds-rules";

/// The allocator of host-local's directories.
pub(crate) const ALLOCATOR: &str = "ipam-da-host-local";

/// The plugin that brings GC past a main plugin.
pub(crate) const GC: &str = "ipam-gc";

/// A network.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) name: NetworkName,
    /// The file that configures it.
    pub(crate) file: PathBuf,
    /// The main plugin: the one with the `ipam` section.
    pub(crate) main: PluginEntry,
    /// The configuration that the IPAM plugin gets, without the keys of a call.
    pub(crate) config: NetworkConfig,
    /// The delegates; host-local without a chain counts as a chain of one.
    pub(crate) delegates: Vec<DelegateName>,
    /// True if the IPAM plugin is host-local itself.
    pub(crate) is_host_local: bool,
    pub(crate) folders: Folders,
    /// The cluster whose pools it uses, and the cluster's engine.
    pub(crate) cluster: Option<(&'static EngineKind, Rc<dyn ConfiguredCluster>)>,
    pub(crate) state_dir: PathBuf,
}

impl Network {
    /// The network of a conflist; `None` if other plugins give its addresses.
    ///
    /// # Errors
    ///
    /// The reason why its configuration can't be used, naming key and value.
    pub(crate) fn of(
        conflist: &Conflist,
        environment: &Environment,
    ) -> Result<Option<Self>, String> {
        let is_ours = |plugin: &&PluginEntry| {
            plugin.kind != GC && matches!(plugin.ipam_type(), Some(CHAIN | HOST_LOCAL))
        };
        let Some(main) = conflist.plugins.iter().find(is_ours) else {
            return Ok(None);
        };
        let is_host_local = main.ipam_type() == Some(HOST_LOCAL);
        let config = if is_host_local {
            as_chain(&main.request)?
        } else {
            main.request.clone()
        };
        let ipam = config.ipam().map_err(|e| e.msg)?;
        let delegates: Option<Vec<DelegateName>> =
            ipam.read("ipam", "delegates").map_err(|e| e.msg)?;
        let delegates = delegates.unwrap_or_default();
        let cluster = match EngineKind::of(&delegates) {
            Some(kind) => Some((kind, (kind.read)(&ipam).map_err(|e| e.msg)?)),
            None => None,
        };
        Ok(Some(Self {
            name: conflist.name.clone(),
            file: conflist.file.clone(),
            main: main.clone(),
            delegates,
            cluster,
            is_host_local,
            folders: Folders::read(&ipam).map_err(|e| e.msg)?,
            state_dir: state_dir(&config, environment).map_err(|e| e.msg)?,
            config,
        }))
    }

    /// The `ipam` section.
    pub(crate) fn ipam(&self) -> Object {
        self.config.ipam().unwrap_or_default()
    }

    /// True if one of the delegates has this name.
    pub(crate) fn has_delegate(&self, name: &str) -> bool {
        self.delegates
            .iter()
            .any(|delegate| delegate.as_str() == name)
    }

    /// The directory of the reservations of a network or a named pool; for addresses that a
    /// cluster keeps, their path in its engine.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        match &self.cluster {
            Some((kind, cluster)) if self.has_delegate(kind.allocator) => {
                cluster.path_of_addresses(name).into()
            }
            _ => self.folders.data_dir.join(name),
        }
    }

    /// True if addresses are kept in host-local's directories.
    pub(crate) fn keeps_files(&self) -> bool {
        self.has_delegate(ALLOCATOR) || self.has_delegate(HOST_LOCAL)
    }
}

/// host-local's configuration as that of a chain with one delegate, so that the chain can
/// run its DEL. host-local ignores the additional key.
fn as_chain(request: &NetworkConfig) -> Result<NetworkConfig, String> {
    let mut object: Object =
        serde_json::from_slice(request.as_bytes()).map_err(|e| e.to_string())?;
    let mut ipam = request.ipam().map_err(|e| e.msg)?;
    ipam.set("delegates", &[HOST_LOCAL]);
    object.set("ipam", &ipam);
    let bytes = serde_json::to_vec(&object).map_err(|e| e.to_string())?;
    NetworkConfig::parse(bytes).map_err(|e| e.msg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn network(plugins: &str) -> Result<Option<Network>, String> {
        let content = format!(r#"{{"cniVersion":"1.0.0","name":"n","plugins":[{plugins}]}}"#);
        let list = Conflist::parse(Path::new("/nowhere/n.conflist"), content.as_bytes())?;
        Network::of(&list, &Environment::default())
    }

    #[test]
    fn host_local_is_a_chain_of_one_delegate() {
        let network = network(r#"{"type":"bridge","ipam":{"type":"host-local","dataDir":"/d"}}"#);
        let network = network.unwrap().unwrap();
        assert!(network.is_host_local && network.keeps_files());
        assert_eq!(network.folders.data_dir, Path::new("/d"));
        let names: Vec<&str> = network.delegates.iter().map(DelegateName::as_str).collect();
        assert_eq!(names, [HOST_LOCAL]);
    }

    #[test]
    fn the_plugin_with_the_ipam_section_counts_in_any_position() {
        let chain = r#""ipam":{"type":"ipam-delegated","delegates":["a"],"stateDir":"/s"}"#;
        let ptp = network(&format!(
            r#"{{"type":"tuning"}},{{"type":"ptp",{chain}}},{{"type":"ipam-gc",{chain}}}"#
        ));
        let ptp = ptp.unwrap().unwrap();
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
    fn a_wrong_setting_names_the_key() {
        for (ipam, key) in [
            (r#""type":"host-local","dataDir":"d""#, "ipam.dataDir"),
            (r#""type":"ipam-delegated","stateDir":"s""#, "ipam.stateDir"),
            (r#""type":"ipam-delegated","delegates":7"#, "ipam.delegates"),
        ] {
            let error = network(&format!(r#"{{"type":"ptp","ipam":{{{ipam}}}}}"#)).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }
}
