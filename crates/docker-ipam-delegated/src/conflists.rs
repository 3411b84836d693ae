//! CNI network configurations in a folder, found by the name of their network.

use std::fs;
use std::path::{Path, PathBuf};

use cni::Object;

use crate::refusal::{Refusal, impossible};

/// Extensions of configurations, as libcni reads them (`ConfFiles`).
const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];

/// The network configuration of this name, in a folder: a list as it is, and a single
/// configuration as a list of one.
///
/// # Errors
///
/// There is none, or the folder can't be read.
pub(crate) fn find(folder: &Path, name: &str) -> Result<Object, Refusal> {
    let cant = |error| impossible(format!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(cant)? {
        paths.push(entry.map_err(cant)?.path());
    }
    paths.retain(|path| {
        let extension = path.extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| EXTENSIONS.contains(&it))
    });
    paths.sort();
    let mut unreadable = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(list) if list.read::<String>("", "name").ok().flatten().as_deref() == Some(name) => {
                return Ok(list);
            }
            Ok(_) => {}
            Err(why) => unreadable.push(format!("{}: {why}", path.display())),
        }
    }
    let mut why = format!(
        "no network configuration in {} has the name {name:?}",
        folder.display()
    );
    if !unreadable.is_empty() {
        why += &format!("; unreadable: {}", unreadable.join("; "));
    }
    Err(impossible(why))
}

fn read(path: &Path) -> Result<Object, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let object: Object = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if object.get("plugins").is_some() {
        return Ok(object);
    }
    let mut list = Object::new();
    for key in ["cniVersion", "name"] {
        if let Some(value) = object.get(key) {
            list.set(key, value);
        }
    }
    list.set("plugins", &[object]);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_found_by_its_networks_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "10-a.conflist",
            r#"{"cniVersion":"1.0.0","name":"a","plugins":[{"type":"bridge"}]}"#,
        );
        write(
            "20-b.conf",
            r#"{"cniVersion":"1.0.0","name":"b","type":"macvlan"}"#,
        );
        write("30-c.txt", r#"{"name":"c","plugins":[]}"#);
        write("40-d.json", "{");
        let found = |name| find(folder.path(), name).map(|it| serde_json::to_string(&it).unwrap());
        assert!(
            found("a")
                .unwrap()
                .contains(r#""plugins":[{"type":"bridge"}]"#)
        );
        assert_eq!(
            found("b").unwrap(),
            r#"{"cniVersion":"1.0.0","name":"b","plugins":[{"cniVersion":"1.0.0","name":"b","type":"macvlan"}]}"#
        );
        let missing = found("c").unwrap_err().to_string();
        assert!(missing.contains(r#"has the name "c""#), "{missing}");
        assert!(missing.contains("40-d.json: EOF"), "{missing}");
        assert!(
            find(Path::new("/nowhere"), "a")
                .unwrap_err()
                .to_string()
                .starts_with("/nowhere: ")
        );
    }
}
