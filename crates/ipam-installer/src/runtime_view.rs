//! Finds the network that a runtime would use, from the files in its folder and in the plugins'
//! folder.
//!
//! Runtimes use the first file of the folder by name. If the first file is invalid, containerd
//! uses none. It is not checked whether a runtime is running and reads these folders.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use conflist::Conflist;
use serde_json::Value;

/// Multus and its client. Their configuration comes before the network that they extend.
const MULTUS: [&str; 2] = ["multus", "multus-shim"];

/// Checks that a runtime would use one of the files `ours` in the folder `net`, and that all
/// plugins in that file are in the folder `plugins`.
///
/// # Errors
///
/// The file that the runtime would use instead; a missing plugin; an I/O error.
pub(crate) fn check(net: &Path, plugins: &Path, ours: &[&String]) -> Result<()> {
    let files = conflist::files(net).with_context(|| net.display().to_string())?;
    let is_ours = |file: &&PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| ours.iter().any(|own| *own == name))
    };
    let Some(own) = files.iter().find(is_ours) else {
        bail!("{} has no conflist of the ConfigMap", net.display());
    };
    let list = read(own)?;
    for earlier in files.iter().take_while(|file| *file != own) {
        let leads = leads_to(earlier, &list);
        let reason = match leads {
            Ok(true) => continue,
            Ok(false) => String::new(),
            Err(error) => format!(" ({error:#})"),
        };
        bail!(
            "the runtime uses the first file, which is {}{reason}, and not {}: move it away",
            earlier.display(),
            own.display()
        );
    }
    for plugin in &list.plugins {
        for name in [Some(&*plugin.kind), plugin.ipam_type()]
            .into_iter()
            .flatten()
        {
            executable(&plugins.join(name)).with_context(|| format!("{}", own.display()))?;
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Conflist> {
    let content = conflist::read(file).with_context(|| format!("{}", file.display()))?;
    Conflist::parse(file, &content).map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))
}

/// True if the file is Multus', and the first network of its pods is `own`: by the network's name,
/// or by the name or path of its file.
fn leads_to(file: &Path, own: &Conflist) -> Result<bool> {
    let content = conflist::read(file)?;
    let list = Conflist::parse(file, &content).map_err(|why| anyhow::anyhow!("{why}"))?;
    if !list
        .plugins
        .iter()
        .any(|plugin| MULTUS.contains(&plugin.kind.as_str()))
    {
        return Ok(false);
    }
    let path = own.file.to_str();
    let name = own.file.file_name().and_then(|name| name.to_str());
    let names = [Some(own.name.as_str()), path, name];
    let value: Value = serde_json::from_slice(&content)?;
    Ok(list.name != own.name && mentions(&value, &names))
}

fn mentions(value: &Value, names: &[Option<&str>]) -> bool {
    match value {
        Value::String(text) => names.contains(&Some(text)),
        Value::Array(all) => all.iter().any(|value| mentions(value, names)),
        Value::Object(all) => all.values().any(|value| mentions(value, names)),
        _ => false,
    }
}

fn executable(path: &Path) -> Result<()> {
    let shown = || format!("{}", path.display());
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{} is missing", path.display())
        }
        other => other.with_context(shown)?,
    };
    let is_executable = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    ensure!(is_executable, "{} is no executable", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const OURS: &str = r#"{"cniVersion":"1.0.0","name":"tenants","plugins":[
        {"type":"bridge","ipam":{"type":"ipam-delegated"}}]}"#;

    /// Stands for a pipe without a writer.
    const PIPE: &str = "(pipe)";

    /// The check's result for a node with these files in net.d and these plugins.
    fn said(net: &[(&str, &str)], plugins: &[&str]) -> String {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        for name in ["net.d", "bin"] {
            fs::create_dir(folder(name)).unwrap();
        }
        for (name, content) in net {
            let path = folder("net.d").join(name);
            match *content {
                PIPE => mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
                content => fs::write(path, content).unwrap(),
            }
        }
        for name in plugins {
            let path = folder("bin").join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let ours = "10-tenants.conflist".to_owned();
        let checked = check(&folder("net.d"), &folder("bin"), &[&ours]);
        let said = checked.map_or_else(|error| format!("{error:#}"), |()| "ready".to_owned());
        said.replace(&root.path().display().to_string(), "")
    }

    #[test]
    fn a_node_is_ready_if_the_first_file_is_ours_and_its_plugins_are_there() {
        let ours = ("10-tenants.conflist", OURS);
        let other = r#"{"cniVersion":"1.0.0","name":"other","type":"ptp"}"#;
        let multus = r#"{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus",
            "delegates":[{"cniVersion":"1.0.0","name":"tenants","plugins":[]}]}"#;
        let of_another = multus.replace("tenants", "flannel");
        let by_file = r#"{"cniVersion":"1.0.0","name":"m","type":"multus-shim",
            "clusterNetwork":"10-tenants.conflist"}"#;
        let alike = other.replace("other", "tenants");
        let both = ["bridge", "ipam-delegated"];
        for ready in [
            &[ours][..],
            &[ours, ("20-other.conf", other)],
            &[("05-other.conf.bak", other), (".new", ""), ours],
            &[("00-multus.conf", multus), ours],
            &[("00-multus.conf", by_file), ours],
        ] {
            assert_eq!(said(ready, &both), "ready", "{ready:?}");
        }
        for (name, content) in [
            ("05-other.conf", other),
            ("05-other.conflist", other),
            (".other.json", other),
            ("00-multus.conf", &of_another),
            ("00-alike.conf", &alike),
            ("05-other.conf", "{"),
            ("05-other.conf", PIPE),
        ] {
            let said = said(&[(name, content), ours], &both);
            let named = format!("first file, which is /net.d/{name}");
            assert!(said.contains(&named), "{said}");
        }
        let said_without = |plugin: &str| {
            let rest: Vec<&str> = both.into_iter().filter(|name| *name != plugin).collect();
            said(&[ours], &rest)
        };
        for plugin in both {
            assert!(said_without(plugin).contains(&format!("/bin/{plugin} is missing")));
        }
        assert!(said(&[("10-tenants.conflist", "{")], &both).contains("10-tenants.conflist"));
        assert!(said(&[], &both).contains("no conflist"));
    }
}
