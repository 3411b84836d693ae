//! Writes the plugins' kubeconfig: the API server's URL, and the token and the authority of the
//! pod's service account.
//!
//! The kubelet replaces the mounted token before it expires; the installer then writes the file
//! again. URL, token and authority are in one file, so that they always match. The file is JSON,
//! which is also YAML.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::tls::{PemItem, parse_pem};

use crate::api_server;
use crate::arguments::Arguments;
use crate::folder::Folder;
use crate::node::say;

/// Only root may read the token.
const MODE: u32 = 0o600;

/// Name of the extension by which the file is recognised. It contains the node's name.
const EXTENSION: &str = "ipam-delegated.io";

/// Writes the kubeconfig of the arguments, if they name one and its content differs.
///
/// # Errors
///
/// The pod has no service account; a foreign file has the name; an I/O error.
pub(crate) fn put(arguments: &Arguments) -> Result<()> {
    let Some(path) = &arguments.kubeconfig else {
        return Ok(());
    };
    let wanted = wanted(arguments).context("the kubeconfig can't be made")?;
    if read(path)?.is_some_and(|found| found == (wanted.clone(), MODE)) {
        return Ok(());
    }
    let (folder, name) = locate(path)?;
    folder
        .replace(name, wanted.as_bytes(), MODE)
        .with_context(|| path.display().to_string())?;
    say("installed", folder.path(), &[name.to_owned()]);
    Ok(())
}

/// Removes the kubeconfig of the arguments, if they name one.
///
/// # Errors
///
/// A foreign file has the name; an I/O error.
pub(crate) fn remove(arguments: &Arguments) -> Result<()> {
    let Some(path) = &arguments.kubeconfig else {
        return Ok(());
    };
    if read(path)?.is_some() {
        let (folder, name) = locate(path)?;
        folder
            .remove(name)
            .with_context(|| path.display().to_string())?;
        say("removed", folder.path(), &[name.to_owned()]);
    }
    Ok(())
}

fn locate(path: &Path) -> Result<(Folder, &str)> {
    let parts = path.parent().zip(path.file_name());
    let (folder, name) = parts.context("--kubeconfig is no path of a file")?;
    let name = name.to_str().context("--kubeconfig is not UTF-8")?;
    Ok((Folder::open(folder)?, name))
}

/// Content and mode of the installed file; `None` if it is missing.
///
/// # Errors
///
/// A file that was not installed has the name; an I/O error.
fn read(path: &Path) -> Result<Option<(String, u32)>> {
    let shown = || path.display().to_string();
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.with_context(shown)?,
    };
    let content = match metadata.is_file() {
        true => fs::read_to_string(path).with_context(shown)?,
        false => String::new(),
    };
    let config: Value = serde_json::from_str(&content).unwrap_or_default();
    if config["contexts"][0]["context"]["extensions"][0]["name"] != EXTENSION {
        bail!(
            "{} was not installed by ipam-installer: move it away",
            path.display()
        );
    }
    Ok(Some((content, metadata.mode() & 0o7777)))
}

/// The content that the file should have.
fn wanted(arguments: &Arguments) -> Result<String> {
    let account = &arguments.service_account;
    let file = |name: &str| {
        let path = account.join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let token = file("token")?;
    let token = token.trim();
    ensure!(!token.is_empty(), "{}/token is empty", account.display());
    let authority = file("ca.crt")?;
    let mut certificates = parse_pem(authority.as_bytes());
    ensure!(
        certificates.any(|item| matches!(item, Ok(PemItem::Certificate(_)))),
        "{}/ca.crt has no certificate",
        account.display()
    );
    let server = match &arguments.api_server {
        Some(url) => url.clone(),
        None => format!("https://{}", api_server::address()?),
    };
    let cluster = json!({
        "server": server,
        "certificate-authority-data": STANDARD.encode(&authority),
    });
    let context = json!({
        "cluster": EXTENSION,
        "user": EXTENSION,
        "extensions": [{"name": EXTENSION, "extension": {"node": arguments.node}}],
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": EXTENSION, "cluster": cluster}],
        "users": [{"name": EXTENSION, "user": {"token": token}}],
        "contexts": [{"name": EXTENSION, "context": context}],
        "current-context": EXTENSION,
    });
    Ok(serde_json::to_string_pretty(&config)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    /// A service account, and the path of a kubeconfig that doesn't exist yet.
    fn world() -> (tempfile::TempDir, Arguments, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("token"), "secret\n").unwrap();
        fs::write(root.path().join("ca.crt"), CERTIFICATE).unwrap();
        let file = root.path().join("net.d/plugins.kubeconfig");
        let arguments = Arguments::parse_from([
            "ipam-installer",
            "--api-server=https://api:6443",
            "--node=worker-1",
            &format!("--service-account={}", root.path().display()),
            &format!("--kubeconfig={}", file.display()),
        ]);
        (root, arguments, file)
    }

    fn config(file: &Path) -> Value {
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    }

    #[test]
    fn a_kubeconfig_has_url_authority_and_token_and_only_root_reads_it() {
        let (_root, arguments, file) = world();
        put(&arguments).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
        let config = config(&file);
        let cluster = &config["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://api:6443");
        let authority = cluster["certificate-authority-data"].as_str().unwrap();
        assert_eq!(STANDARD.decode(authority).unwrap(), CERTIFICATE.as_bytes());
        assert_eq!(config["users"][0]["user"], json!({"token": "secret"}));
        let extension = &config["contexts"][0]["context"]["extensions"][0];
        assert_eq!(extension["extension"]["node"], "worker-1");
    }

    #[test]
    fn a_kubeconfig_is_written_again_only_if_something_has_changed() {
        let (root, arguments, file) = world();
        let inode = || {
            put(&arguments).unwrap();
            fs::metadata(&file).unwrap().ino()
        };
        let first = inode();
        assert_eq!(inode(), first);
        fs::write(root.path().join("token"), "another").unwrap();
        let second = inode();
        assert_ne!(second, first);
        assert_eq!(config(&file)["users"][0]["user"]["token"], "another");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_ne!(inode(), second);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
        remove(&arguments).unwrap();
        remove(&arguments).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_foreign_file_stays_and_is_named() {
        let (root, arguments, file) = world();
        fs::create_dir(root.path().join("net.d")).unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let plants: [&dyn Fn(); 3] = [
            &|| fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap(),
            &|| symlink(&victim, &file).unwrap(),
            &|| fs::create_dir(&file).unwrap(),
        ];
        for plant in plants {
            let _ = fs::remove_file(&file);
            plant();
            for refused in [put(&arguments), remove(&arguments)] {
                let reason = format!("{:#}", refused.unwrap_err());
                assert!(
                    reason.contains("was not installed by ipam-installer"),
                    "{reason}"
                );
            }
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn without_a_token_or_a_certificate_nothing_is_written() {
        let (root, arguments, file) = world();
        let refused = |name: &str, content: Option<&str>, expected: &str| {
            let path = root.path().join(name);
            let before = fs::read(&path).unwrap();
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let reason = format!("{:#}", put(&arguments).unwrap_err());
            assert!(reason.contains(expected), "{reason}");
            assert!(!file.exists());
            fs::write(&path, before).unwrap();
        };
        refused("token", Some("\n"), "token is empty");
        refused("token", None, "No such file");
        refused("ca.crt", Some("x"), "ca.crt has no certificate");
    }
}
