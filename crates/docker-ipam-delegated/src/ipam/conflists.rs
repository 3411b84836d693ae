use std::path::Path;

use anyhow::{Result, bail};
use conflist::{Conflist, Listing};

/// Finds the network configuration that a network names, in a folder.
///
/// # Errors
///
/// There is none, or the folder can't be read.
pub(crate) fn find(folder: &Path, name: &str) -> Result<Conflist> {
    let found = Listing::in_folders(&[folder]);
    let mut conflists = found.conflists.into_iter();
    let Some(conflist) = conflists.find(|conflist| conflist.name.as_str() == name) else {
        let folder = folder.display();
        let mut why = format!("no network configuration in {folder} has the name {name:?}");
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            why += &format!("; unreadable: {}", problems.join("; "));
        }
        bail!(why);
    };
    if let Some(version) = &conflist.unsupported_version {
        let file = conflist.file.display();
        bail!("{file}: cniVersion {version} is not supported");
    }
    Ok(conflist)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        write(
            "50-e.conf",
            r#"{"cniVersion":"9.0.0","name":"e","type":"a"}"#,
        );
        let found = |name| {
            let found = find(folder.path(), name);
            found.map(|list| serde_json::to_string(&list.as_list()).unwrap())
        };
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
        let version = found("e").unwrap_err().to_string();
        assert!(version.contains("cniVersion 9.0.0"), "{version}");
    }

    #[test]
    fn a_pipe_in_the_folder_holds_up_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::RUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("a.conf"), kind, mode, 0).unwrap();
        let error = find(folder.path(), "a").unwrap_err().to_string();
        assert!(
            error.contains("a.conf: it is not a regular file"),
            "{error}"
        );
    }
}
