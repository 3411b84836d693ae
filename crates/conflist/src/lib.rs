#![doc = include_str!("../README.md")]

mod folder;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cni::{Error, NetworkConfig, NetworkName, Object, SpecVersion};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use folder::files_with;
pub use folder::{EXTENSIONS, Listing, Problem, files, read, readable};

/// A network configuration file: a list of plugins (`*.conflist`), or a single plugin
/// (`*.conf`, `*.json`).
#[derive(Clone, Debug)]
pub struct Conflist {
    /// Path of the file.
    pub file: PathBuf,
    /// Its content: a list, or a single plugin.
    pub object: Object,
    /// `name`: the network's.
    pub name: NetworkName,
    /// The version of the calls: the highest of `cniVersion` and `cniVersions` that we
    /// know.
    pub version: SpecVersion,
    /// The version that the file names, if we don't support it; [`Self::version`] is then
    /// the oldest that we do.
    pub unsupported_version: Option<String>,
    /// The plugins, in order; at least one.
    pub plugins: Vec<PluginEntry>,
    /// True if the runtime must not send GC: `disableGC`.
    pub disable_gc: bool,
}

/// A plugin of a network.
#[derive(Clone, Debug)]
pub struct PluginEntry {
    /// Its executable: `type`.
    pub kind: String,
    /// Its configuration as in the file.
    pub object: Object,
    /// Its configuration as a runtime sends it: with the network's name and version.
    pub request: NetworkConfig,
    /// `ipam`, if it has one.
    pub ipam: Option<Object>,
    /// `ipam.type`.
    pub ipam_type: Option<String>,
}

impl Conflist {
    /// Reads the content of a file, and the plugins in the folder that is named after the network.
    ///
    /// # Errors
    ///
    /// The reason why no runtime could use it, naming key and value.
    pub fn parse(file: &Path, content: &[u8]) -> Result<Self, String> {
        Self::read(file, content).map_err(|error| error.msg)
    }

    fn read(file: &Path, content: &[u8]) -> Result<Self, Error> {
        let object = object(content)?;
        let has_extension = file.extension().is_some_and(|end| end == "conflist");
        let is_list = has_extension
            || object.keys().any(|key| key == "plugins") && object.get("type").is_none();
        let missing = || Error::config("name is missing: it must be the network's name");
        let name: NetworkName = value(&object, is_list, "name")?.ok_or_else(missing)?;
        let (version, unsupported_version) = version(&object, is_list)?;
        let plugins = if is_list {
            listed_plugins(file, &object, &name, version)?
        } else {
            vec![PluginEntry::parse("", object.clone(), &name, version)?]
        };
        Ok(Self {
            file: file.to_owned(),
            name,
            version,
            unsupported_version,
            plugins,
            disable_gc: is_list && flag(&object, "disableGC")?,
            object,
        })
    }

    /// The network as a list, whatever the form of the file: name, version, and the
    /// plugins, also those in the folder that is named after the network.
    pub fn as_list(&self) -> Object {
        let plugins: Vec<&Object> = self.plugins.iter().map(|plugin| &plugin.object).collect();
        let mut list = Object::new();
        list.set("cniVersion", self.version.as_str());
        list.set("name", &self.name);
        list.set("plugins", &plugins);
        list
    }
}

impl PluginEntry {
    fn parse(
        path: &str,
        object: Object,
        name: &NetworkName,
        version: SpecVersion,
    ) -> Result<Self, Error> {
        let own = path.trim_end_matches('.');
        let kind: Option<String> = object.read(own, "type")?;
        let missing = || format!("{path}type is missing: it names the plugin's executable");
        let kind = kind.filter(|kind| !kind.is_empty());
        let kind = kind.ok_or_else(|| Error::config(missing()))?;
        let ipam = object.section(own, "ipam")?;
        let read_type = |ipam: &Object| ipam.read(&format!("{path}ipam"), "type");
        let ipam_type = ipam.as_ref().map(read_type).transpose()?.flatten();
        let mut request = Object::new();
        request.set("cniVersion", version.as_str());
        request.set("name", name);
        for (key, raw) in object.iter() {
            if !["cniVersion", "name"].contains(&key) {
                request.append(key, raw);
            }
        }
        let request = serde_json::to_vec(&request).expect("an object is JSON");
        Ok(Self {
            kind,
            request: NetworkConfig::parse(request)?,
            object,
            ipam,
            ipam_type,
        })
    }

    /// The plugin of a request that it has received. ADD needs no `type`.
    pub fn of_request(request: NetworkConfig) -> Self {
        let ipam = request.section("ipam").ok().flatten();
        let ipam_type = ipam.as_ref().map(|ipam| ipam.read("ipam", "type"));
        Self {
            kind: request.read("type").ok().flatten().unwrap_or_default(),
            object: serde_json::from_slice(request.as_bytes()).expect("a request is an object"),
            ipam_type: ipam_type.and_then(Result::ok).flatten(),
            ipam,
            request,
        }
    }

    /// True if a key of the plugin is `true`.
    pub fn is_set(&self, key: &str) -> bool {
        self.object.read("", key).ok().flatten() == Some(true)
    }
}

/// The plugins of a list, and those in the folder that is named after the network.
fn listed_plugins(
    file: &Path,
    list: &Object,
    name: &NetworkName,
    version: SpecVersion,
) -> Result<Vec<PluginEntry>, Error> {
    let entries: Option<Vec<Object>> = list.read_exact("", "plugins")?;
    let mut plugins = Vec::new();
    for (i, entry) in entries.unwrap_or_default().into_iter().enumerate() {
        let path = format!("plugins[{i}].");
        plugins.push(PluginEntry::parse(&path, entry, name, version)?);
    }
    if !flag(list, "loadOnlyInlinedPlugins")? {
        plugins.extend(plugins_beside(file, name, version)?);
    }
    if plugins.is_empty() {
        let why = "plugins is missing or empty: a network needs a plugin";
        return Err(Error::config(why));
    }
    Ok(plugins)
}

/// The plugins of `<folder>/<network>/*.conf`, which libcni appends since version 1.3.
fn plugins_beside(
    file: &Path,
    name: &NetworkName,
    version: SpecVersion,
) -> Result<Vec<PluginEntry>, Error> {
    let folder = file.parent().unwrap_or(Path::new(".")).join(name.as_str());
    let paths = match files_with(&folder, &["conf"]) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(Vec::new()),
        paths => paths.map_err(|error| Error::io(folder.display(), error))?,
    };
    let read = |path: PathBuf| {
        let content = read(&path).map_err(|error| Error::io(path.display(), error))?;
        let plugin = object(&content);
        let entry = plugin.and_then(|plugin| PluginEntry::parse("", plugin, name, version));
        entry.map_err(|error| Error::io(path.display(), error.msg))
    };
    paths.into_iter().map(read).collect()
}

/// The object in a file. Go's decoder replaces what isn't UTF-8.
fn object(content: &[u8]) -> Result<Object, Error> {
    let read = serde_json::from_str(&String::from_utf8_lossy(content));
    read.map_err(|error| Error::config(error.to_string()))
}

/// The value of a key of a file. libcni reads those of a list exactly, and those of a plugin as Go's
/// decoder does.
fn value<T: DeserializeOwned>(from: &Object, is_list: bool, key: &str) -> Result<Option<T>, Error> {
    if is_list {
        return from.read_exact("", key);
    }
    from.read("", key)
}

/// The version of the calls, and the version that the file names if we don't support it.
fn version(object: &Object, is_list: bool) -> Result<(SpecVersion, Option<String>), Error> {
    let one: Option<String> = value(object, is_list, "cniVersion")?;
    let several: Option<Vec<String>> = value(object, is_list, "cniVersions")?;
    let all: Vec<String> = several.into_iter().flatten().chain(one).collect();
    let known = all.iter().filter_map(|text| text.parse().ok()).max();
    Ok(match (known, all.first()) {
        (Some(used), _) => (used, None),
        (None, Some(said)) => (SpecVersion::V0_3_0, Some(said.clone())),
        // The specification's default.
        (None, None) => (SpecVersion::V0_3_0, Some("0.1.0".to_owned())),
    })
}

/// A key that is a boolean, or the text `"true"` or `"false"`, as libcni accepts it. False if it is
/// missing.
fn flag(object: &Object, key: &str) -> Result<bool, Error> {
    let Some(raw) = object.read_exact::<Box<RawValue>>("", key)? else {
        return Ok(false);
    };
    let raw = raw.get();
    match raw.trim_matches('"').to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::config(format!(
            "{key}: {raw} is neither true nor false"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(file: &str, content: &str) -> Result<Conflist, String> {
        Conflist::parse(Path::new(file), content.as_bytes())
    }

    #[test]
    fn a_request_has_the_networks_name_and_version_and_the_plugins_keys_as_they_were() {
        let list = parse(
            "/nowhere/a.conflist",
            r#"{"cniVersion":"0.4.0","cniVersions":["9.9.9","1.0.0"],"name":"n","plugins":[{"type":"bridge","x":1.50,"name":"other"},{"type":"portmap"}]}"#,
        )
        .unwrap();
        let kinds: Vec<&str> = list
            .plugins
            .iter()
            .map(|plugin| plugin.kind.as_str())
            .collect();
        assert_eq!(kinds, ["bridge", "portmap"]);
        assert_eq!(
            str::from_utf8(list.plugins[0].request.as_bytes()).unwrap(),
            r#"{"cniVersion":"1.0.0","name":"n","type":"bridge","x":1.50}"#
        );
        let old = parse("a.conf", r#"{"name":"n","type":"ptp"}"#).unwrap();
        assert_eq!(old.unsupported_version.as_deref(), Some("0.1.0"));
        let one = parse(
            "a.conf",
            r#"{"cniVersion":"1.0.0","name":"n","type":"ptp"}"#,
        )
        .unwrap();
        assert_eq!((one.plugins.len(), one.name.as_str()), (1, "n"));
    }

    #[test]
    fn a_list_is_read_exactly_and_its_plugins_as_go_reads_them() {
        let list = r#"{"cniVersion":"1.0.0","CniVersion":"9","name":"n","NAME":"m","plugins":
            [{"Type":"bridge","IPAM":{"TYPE":"host-local"}}],"Plugins":[]}"#;
        let list = parse("/nowhere/a.conflist", list).unwrap();
        assert_eq!((list.name.as_str(), list.plugins.len()), ("n", 1));
        assert_eq!(list.plugins[0].kind, "bridge");
        assert_eq!(list.plugins[0].ipam_type.as_deref(), Some("host-local"));
        let capital = r#"{"cniVersion":"1.0.0","Name":"n","plugins":[{"type":"a"}]}"#;
        assert!(parse("/nowhere/a.conflist", capital).is_err());
        let one = r#"{"CNIVersion":"1.0.0","Name":"n","Type":"ptp"}"#;
        assert_eq!(parse("a.conf", one).unwrap().version, SpecVersion::V1_0_0);
    }

    #[test]
    fn each_reason_names_the_key() {
        for (content, reason) in [
            ("{", "EOF while parsing"),
            ("[]", "expected an object"),
            (r#"{"cniVersion":"1.0.0"}"#, "name is missing"),
            (r#"{"cniVersion":"1.0.0","name":"a b"}"#, "\"a b\""),
            (r#"{"cniVersion":7,"name":"n"}"#, "cniVersion: invalid type"),
            (r#"{"cniVersion":"1.0.0","name":"n"}"#, "plugins is missing"),
            (
                r#"{"cniVersion":"1.0.0","name":"n","plugins":[{}]}"#,
                "plugins[0].type is missing",
            ),
            // libcni refuses these, too.
            (
                r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a","ipam":7}]}"#,
                "plugins[0].ipam: invalid type",
            ),
            (
                r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a","ipam":{"type":[]}}]}"#,
                "plugins[0].ipam.type: invalid type",
            ),
            (
                r#"{"cniVersion":"1.0.0","name":"n","plugins":{}}"#,
                "plugins: invalid type",
            ),
            (
                r#"{"cniVersion":"1.0.0","name":"n","disableGC":7,"plugins":[{"type":"a"}]}"#,
                "disableGC: 7",
            ),
        ] {
            let error = parse("/nowhere/a.conflist", content).unwrap_err();
            assert!(error.contains(reason), "{content}: {error}");
        }
    }

    #[test]
    fn a_folder_of_plugins_that_cant_be_read_is_no_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.conflist");
        let content = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"ptp"}]}"#;
        let parse = || Conflist::parse(&file, content.as_bytes());
        assert_eq!(parse().unwrap().plugins.len(), 1);
        let plugins = folder.path().join("n");
        std::os::unix::fs::symlink(&plugins, &plugins).unwrap();
        let error = parse().unwrap_err();
        assert!(error.contains(plugins.to_str().unwrap()), "{error}");
    }
}
