//! The kubeconfig, catalogues and conflists that the node should have: the files of the mounted ConfigMaps
//! that are for this node, with its subnets in place of `${podCIDR}`, and with the installer's mark.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use conflist::EXTENSIONS;
use ipnet::IpNet;
use state_files::names_in;

use crate::api_server::{kubeconfig, node_subnets};
use crate::arguments::Arguments;
use crate::mark::marked;
use crate::path_context::PathContext;
use crate::wanted::{Content, Files, Wanted, installed_conflists};

/// The kubeconfig, catalogues and conflists. Of an empty or missing ConfigMap nothing is wanted, and
/// nothing removed.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The kubeconfig, the catalogues, and behind them the conflists.
    pub(crate) wanted: Vec<Wanted>,
    /// The conflists by name.
    pub(crate) conflists: Files,
    /// Installed conflists that are not wanted any more.
    pub(crate) obsolete: Vec<PathBuf>,
}

impl Config {
    /// Reads the service account and the ConfigMaps. `subnets` are the node's, empty until a file
    /// needs them.
    ///
    /// # Errors
    ///
    /// A file is invalid; an I/O error; the API server doesn't tell the node's subnets. Then nothing
    /// of the ConfigMaps is wanted, but the kubeconfig is.
    pub(crate) fn read(&mut self, arguments: &Arguments, subnets: &mut Vec<IpNet>) -> Result<()> {
        if let Some(path) = &arguments.kubeconfig {
            let content = Content::Kubeconfig(kubeconfig(arguments).context("kubeconfig")?);
            self.wanted.push(Wanted::new(path, content));
        }
        let mut read = |from: &Path, extensions: &[&str]| {
            let files = node_files(from, arguments.node.as_deref(), extensions);
            let completed = files.and_then(|files| fill_in(files, arguments, subnets));
            completed.with_context(|| format!("{}: nothing of it is installed", from.display()))
        };
        let mut wanted = Vec::new();
        for (from, pools) in arguments.catalogues()? {
            let files = Some(read(from, &["json"])?).filter(|files| !files.is_empty());
            wanted.extend(files.map(|files| Wanted::new(pools, Content::Catalogue(files))));
        }
        let folder = &arguments.conflists;
        let from = arguments.conflists_from.as_ref();
        let conflists = from.map_or(Ok(Files::new()), |from| read(from, &EXTENSIONS))?;
        if !conflists.is_empty() {
            self.obsolete = installed_conflists(folder)?;
        }
        for (name, text) in &conflists {
            let path = folder.join(name);
            self.obsolete.retain(|removed| *removed != path);
            wanted.push(Wanted::new(&path, Content::Conflist(text.clone())));
        }
        self.wanted.append(&mut wanted);
        self.conflists = conflists;
        Ok(())
    }
}

/// The node's files with one of these extensions in a folder: `NAME.on.NODE.EXT` for this node, or
/// else `NAME.EXT`, which is for all nodes. Empty if the folder is empty. All files are of one
/// version of the ConfigMap.
///
/// # Errors
///
/// The folder can't be read, is replaced meanwhile, contains a file with another kind of name, or
/// only files of other nodes.
fn node_files(folder: &Path, node: Option<&str>, extensions: &[&str]) -> Result<Files> {
    // The kubelet replaces all files by replacing one link.
    let link = || fs::read_link(folder.join("..data")).unwrap_or_default();
    let data = folder.join(link());
    let mut all = Files::new();
    let names = names_in(&data)?.into_iter();
    for name in names.filter(|name| !name.starts_with('.')) {
        let path = data.join(&name);
        if path.metadata().at(&path)?.is_file() {
            all.insert(name, fs::read_to_string(&path).at(&path)?);
        }
    }
    let changed = "its files change while they are read";
    ensure!(folder.join(link()) == data, changed);
    choose_for_node(all, node, extensions)
}

fn choose_for_node(all: Files, node: Option<&str>, extensions: &[&str]) -> Result<Files> {
    let (mut general, mut own, is_missing) = (Files::new(), Files::new(), all.is_empty());
    for (name, text) in all {
        let parts = name.rsplit_once('.');
        let Some((stem, extension)) = parts.filter(|(_, end)| extensions.contains(end)) else {
            bail!("{name}: only *.{} are read", extensions.join(", *."));
        };
        let Some((stem, to)) = stem.split_once(".on.") else {
            general.insert(name, text);
            continue;
        };
        ensure!(
            node.is_some(),
            "{name}: --node doesn't say which node this is"
        );
        if node == Some(to) {
            own.insert(format!("{stem}.{extension}"), text);
        }
    }
    general.extend(own);
    // An optional ConfigMap that doesn't exist is empty.
    let without_file = "it has no file for this node";
    ensure!(is_missing || !general.is_empty(), without_file);
    Ok(general)
}

/// The files with the node's subnets in the place of placeholders, and with the installer's mark.
fn fill_in(files: Files, arguments: &Arguments, subnets: &mut Vec<IpNet>) -> Result<Files> {
    let complete = |(name, text): (String, String)| {
        let completed = insert_subnets(&text, arguments, subnets).and_then(|text| marked(&text));
        Ok((name.clone(), completed.context(name)?))
    };
    files.into_iter().map(complete).collect()
}

/// Replaces `${podCIDR}` and `${podCIDR6}` by the node's first subnet of the IP version.
fn insert_subnets(text: &str, arguments: &Arguments, subnets: &mut Vec<IpNet>) -> Result<String> {
    let mut replaced = text.to_owned();
    for (placeholder, version) in [("${podCIDR}", "IPv4"), ("${podCIDR6}", "IPv6")] {
        if !text.contains(placeholder) {
            continue;
        }
        if subnets.is_empty() {
            let read = node_subnets(arguments);
            *subnets = read.with_context(|| format!("{placeholder} isn't known"))?;
        }
        let is_of_version = |subnet: &&IpNet| subnet.addr().is_ipv4() == (version == "IPv4");
        let missing =
            || format!("{placeholder}: the node has no {version} subnet, only {subnets:?}");
        let subnet = subnets.iter().find(is_of_version).with_context(missing)?;
        replaced = replaced.replace(placeholder, &subnet.to_string());
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::os::unix::fs::symlink;

    fn names(files: &[&str], node: Option<&str>) -> Result<String, String> {
        let all = files
            .iter()
            .map(|name| ((*name).to_owned(), (*name).to_owned()));
        let chosen =
            choose_for_node(all.collect(), node, &["json"]).map_err(|error| error.to_string())?;
        let pairs = chosen.iter().map(|(name, from)| format!("{name}={from}"));
        Ok(pairs.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_nodes_own_file_takes_the_place_of_the_general_one() {
        let files = [
            "a.json",
            "a.on.n1.json",
            "b.on.n2.example.com.json",
            "c.json",
        ];
        let chosen = |node| names(&files, Some(node)).unwrap();
        assert_eq!(chosen("n1"), "a.json=a.on.n1.json c.json=c.json");
        assert_eq!(
            chosen("n2.example.com"),
            "a.json=a.json b.json=b.on.n2.example.com.json c.json=c.json"
        );
        assert!(names(&files, None).unwrap_err().contains("--node"));
        assert!(names(&["x.yaml"], None).unwrap_err().contains("x.yaml"));
        assert!(names(&["a.on.n1.json"], Some("n2")).is_err());
    }

    #[test]
    fn a_configmap_as_the_kubelet_mounts_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("..2026_1")).unwrap();
        fs::write(path.join("..2026_1/a.json"), "{}").unwrap();
        symlink("..2026_1", path.join("..data")).unwrap();
        symlink("..data/a.json", path.join("a.json")).unwrap();
        let files = node_files(path, None, &["json"]).unwrap();
        assert_eq!(files, Files::from([("a.json".to_owned(), "{}".to_owned())]));
        symlink("nowhere", path.join("..2026_1/b.json")).unwrap();
        let error = node_files(path, None, &["json"]).unwrap_err();
        assert!(error.to_string().ends_with("b.json"), "{error}");
    }

    fn replaced(text: &str, subnets: &[&str]) -> Result<String, String> {
        let mut subnets = subnets.iter().map(|text| text.parse().unwrap()).collect();
        let arguments = Arguments::parse_from(["ipam-installer"]);
        insert_subnets(text, &arguments, &mut subnets).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn each_placeholder_becomes_the_first_subnet_of_its_version() {
        let subnets = ["10.244.3.0/24", "fd00:3::/64", "10.9.0.0/16", "fd00:9::/64"];
        assert_eq!(
            replaced("${podCIDR} \"${podCIDR6}\",${podCIDR}", &subnets).unwrap(),
            "10.244.3.0/24 \"fd00:3::/64\",10.244.3.0/24"
        );
    }

    #[test]
    fn nothing_else_is_replaced_and_no_subnet_is_read_for_it() {
        let others = "${K8S_POD_NAME} ${podCIDR4} $podCIDR ${ podCIDR } ${podcidr} {podCIDR}";
        assert_eq!(replaced(others, &[]).unwrap(), others);
    }

    #[test]
    fn a_node_without_a_subnet_of_the_version_is_an_error() {
        assert_eq!(
            replaced("${podCIDR}", &["fd00:3::/64"]).unwrap_err(),
            "${podCIDR}: the node has no IPv4 subnet, only [fd00:3::/64]"
        );
        assert!(replaced("${podCIDR6}", &["10.244.3.0/24"]).is_err());
        let failed = replaced("${podCIDR}", &[]).unwrap_err();
        assert!(
            failed.starts_with("${podCIDR} isn't known: --node"),
            "{failed}"
        );
    }
}
