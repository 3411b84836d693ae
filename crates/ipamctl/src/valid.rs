//! The list of the containers that a runtime knows.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use cni::ContainerId;

/// Length of the IDs that runtimes make.
const WHOLE: usize = 64;

/// Container IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Valid(HashSet<String>);

impl Valid {
    /// Reads a file with an ID a line; `-` is stdin.
    ///
    /// # Errors
    ///
    /// A file that can't be read, a line that is no ID, and, unless `none_valid`, an empty
    /// list: the command that makes it may have failed.
    pub(crate) fn read(file: &Path, none_valid: bool) -> Result<Self> {
        let mut text = String::new();
        if file == Path::new("-") {
            io::stdin().read_to_string(&mut text).context("stdin")?;
        } else {
            text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        }
        Self::parse(&text, none_valid)
    }

    fn parse(text: &str, none_valid: bool) -> Result<Self> {
        let mut ids = HashSet::new();
        for (i, line) in text.lines().enumerate() {
            let id = line.trim();
            if id.is_empty() {
                continue;
            }
            if let Err(error) = id.parse::<ContainerId>() {
                bail!(
                    "the list of valid containers, line {}: {id:?} is no container ID: {error}",
                    i + 1
                );
            }
            ids.insert(id.to_owned());
        }
        ensure!(
            !ids.is_empty() || none_valid,
            "the list of valid containers is empty; if no container is there, say so with --none-valid"
        );
        Ok(Self(ids))
    }

    /// True if the container is in the list.
    pub(crate) fn contains(&self, container: &str) -> bool {
        self.0.contains(container)
    }

    /// Refuses a list of shortened IDs, by which every container would count as gone.
    ///
    /// # Errors
    ///
    /// An entry that is the beginning of a whole ID which holds an address.
    pub(crate) fn refuse_shortened<'a>(
        &self,
        holders: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        for holder in holders.filter(|it| is_whole(it) && !self.contains(it)) {
            let mut beginnings = (4..WHOLE).map(|length| &holder[..length]);
            if let Some(short) = beginnings.find(|it| self.contains(it)) {
                bail!(
                    "the list of valid containers has {short}, the beginning of {holder}: \
                     it must have whole IDs (--no-trunc)"
                );
            }
        }
        Ok(())
    }
}

fn is_whole(id: &str) -> bool {
    id.len() == WHOLE && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_refused_unless_it_is_meant() {
        let error = Valid::parse(" \n\n", false).unwrap_err();
        assert!(error.to_string().contains("--none-valid"), "{error}");
        assert_eq!(Valid::parse("", true).unwrap(), Valid::default());
    }

    #[test]
    fn a_line_that_is_no_id_is_named() {
        let error = Valid::parse("abc\nPOD ID\n", false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("line 2") && text.contains("POD ID"), "{text}");
        assert!(Valid::parse(" abc \r\n", false).unwrap().contains("abc"));
    }

    #[test]
    fn shortened_ids_are_refused() {
        let whole = "8f".repeat(32);
        let list = Valid::parse(&whole[..12], false).unwrap();
        let error = list.refuse_shortened([whole.as_str()].into_iter());
        assert!(error.unwrap_err().to_string().contains("--no-trunc"));
        // IDs that a person has chosen may begin alike.
        let list = Valid::parse("web", false).unwrap();
        assert!(list.refuse_shortened(["web-1"].into_iter()).is_ok());
    }
}
