//! Reads this node's files from a mounted ConfigMap.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Comes before the node's name in the name of a file for one node.
const ON: &str = ".on.";

/// Most attempts to read a ConfigMap that is replaced meanwhile.
const MOST_ATTEMPTS: usize = 10;

/// The content of files, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The node's files with one of these extensions in a folder: `NAME.on.NODE.EXT` for this node, or
/// else `NAME.EXT`, which is for all nodes. Empty if the folder is empty. All files are of one
/// version of the ConfigMap.
///
/// # Errors
///
/// The folder can't be read, contains a file with another kind of name, or only files of other
/// nodes.
pub(crate) fn files_for(folder: &Path, node: Option<&str>, extensions: &[&str]) -> Result<Files> {
    let shown = || format!("{}", folder.display());
    for _ in 0..MOST_ATTEMPTS {
        let data = data(folder).with_context(shown)?;
        let all = read_all(&data);
        // The kubelet replaces all files by replacing one link.
        if self::data(folder).with_context(shown)? == data {
            return for_node(all.with_context(shown)?, node, extensions).with_context(shown);
        }
    }
    bail!("{}: its files change while they are read", folder.display())
}

/// The target of the link `..data`, or the folder itself.
fn data(folder: &Path) -> io::Result<PathBuf> {
    match fs::read_link(folder.join("..data")) {
        Ok(link) => Ok(folder.join(link)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(folder.to_owned()),
        Err(error) => Err(error),
    }
}

/// The files in a folder, without hidden ones.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn read_all(folder: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && fs::metadata(&path)?.is_file() {
            files.insert(name.into_owned(), fs::read(&path)?);
        }
    }
    Ok(files)
}

fn for_node(all: Files, node: Option<&str>, extensions: &[&str]) -> Result<Files> {
    if all.is_empty() {
        // An optional ConfigMap that doesn't exist.
        return Ok(all);
    }
    let mut general = Files::new();
    let mut own = Files::new();
    for (name, content) in all {
        let Some((stem, extension)) = name
            .rsplit_once('.')
            .filter(|(_, it)| extensions.contains(it))
        else {
            let kinds: Vec<String> = extensions
                .iter()
                .map(|extension| format!("*.{extension}"))
                .collect();
            bail!("{name}: only {} are read", kinds.join(", "));
        };
        match stem.split_once(ON) {
            None => drop(general.insert(name, content)),
            Some((stem, to)) if Some(to) == node => {
                own.insert(format!("{stem}.{extension}"), content);
            }
            Some(_) if node.is_none() => bail!("{name}: --node doesn't say which node this is"),
            // A file for another node.
            Some(_) => {}
        }
    }
    general.extend(own);
    if general.is_empty() {
        bail!("it has no file for this node");
    }
    Ok(general)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Files with these contents, by name.
    pub(crate) fn files(pairs: &[(&str, &str)]) -> Files {
        let pairs = pairs.iter();
        pairs
            .map(|(name, it)| ((*name).to_owned(), it.as_bytes().to_vec()))
            .collect()
    }

    fn names(files: &[&str], node: Option<&str>) -> Result<String, String> {
        let all = files
            .iter()
            .map(|name| ((*name).to_owned(), name.as_bytes().to_vec()));
        let chosen = for_node(all.collect(), node, &["json"]).map_err(|error| error.to_string())?;
        let pairs = chosen.into_iter();
        let pairs =
            pairs.map(|(name, from)| format!("{name}={}", String::from_utf8(from).unwrap()));
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
        let files = files_for(path, None, &["json"]).unwrap();
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            [("a.json".to_owned(), b"{}".to_vec())]
        );
    }
}
