//! The list of a runtime's containers.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use cni::ContainerId;

use crate::arguments::ListArguments;
use crate::node::{NetworkAttachment, after_namespace, is_generated};

/// Fewest characters of an entry that counts as the beginning of an ID.
const SHORTEST: usize = 4;

/// Container IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerList {
    ids: HashSet<String>,
    /// True if a list without any container of this node's networks is accepted.
    none_valid: bool,
    /// The list isn't older than this.
    made: SystemTime,
}

impl ContainerList {
    /// Reads the list of the command line, if there is one: a file with an ID a line; `-` is
    /// stdin.
    ///
    /// # Errors
    ///
    /// A file that can't be read, a line that is not an ID, and, unless `none_valid`, an empty
    /// list: the command that makes it may have failed.
    pub(crate) fn given(arguments: &ListArguments) -> Result<Option<Self>> {
        let Some(file) = &arguments.valid else {
            return Ok(None);
        };
        // The command at the other end of a pipe was started at the same time.
        let now = SystemTime::now();
        let (text, made) = if file == Path::new("-") {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("stdin")?;
            (text, now)
        } else {
            let shown = || file.display().to_string();
            let text = fs::read_to_string(file).with_context(shown)?;
            let metadata = fs::metadata(file).with_context(shown)?;
            (text, now.min(metadata.modified().with_context(shown)?))
        };
        Self::parse(&text, arguments.none_valid, made).map(Some)
    }

    fn parse(text: &str, none_valid: bool, made: SystemTime) -> Result<Self> {
        let mut ids = HashSet::new();
        for (i, line) in text.lines().enumerate() {
            let id = line.trim();
            if id.is_empty() {
                continue;
            }
            if let Err(error) = id.parse::<ContainerId>() {
                bail!(
                    "the list of valid containers, line {}: {id:?} is not a container ID: {error}",
                    i + 1
                );
            }
            ids.insert(id.to_owned());
        }
        ensure!(
            !ids.is_empty() || none_valid,
            "the list of valid containers is empty; if there is no container, use --none-valid"
        );
        Ok(Self {
            ids,
            none_valid,
            made,
        })
    }

    /// The list isn't older than this.
    pub(crate) fn made(&self) -> SystemTime {
        self.made
    }

    /// True if the container is in the list.
    pub(crate) fn contains(&self, container: &str) -> bool {
        self.ids.contains(container)
    }

    /// Refuses a list of shortened or foreign IDs, with which every container would count as gone.
    ///
    /// # Errors
    ///
    /// An entry that is part of an ID which holds an address; a list of names, unless one
    /// holds an address, or `none_valid`.
    pub(crate) fn refuse_wrong_ids(&self, attachments: &[NetworkAttachment<'_>]) -> Result<()> {
        // No list has the IDs of Docker's attachments: the daemon chooses them.
        let listable = attachments.iter().filter(|of| of.docker().is_none());
        self.refuse_for(&listable.map(|of| of.container).collect::<Vec<_>>())
    }

    fn refuse_for(&self, holders: &[&str]) -> Result<()> {
        for holder in holders.iter().filter(|id| !self.contains(id)) {
            if let Some(entry) = self.part_of(holder) {
                bail!(
                    "the list of valid containers has {entry}, which is part of {holder}: \
                     it must have whole IDs, as the runtime passes them to CNI \
                     (--no-trunc; of ctr and nerdctl, NAMESPACE-ID)"
                );
            }
        }
        let has_names = !self.ids.iter().any(|id| is_generated(id));
        let is_foreign = has_names
            && holders.iter().any(|id| is_generated(id))
            && !holders.iter().any(|id| self.contains(id));
        ensure!(
            self.none_valid || !is_foreign,
            "none of the {} entries in the list of valid containers holds an address here, and \
             none is an ID of a runtime: does it have names? If it is right, use --none-valid",
            self.ids.len()
        );
        Ok(())
    }

    /// The entry that is a part of this ID, or differs from it only in case.
    fn part_of(&self, holder: &str) -> Option<String> {
        if !is_generated(holder) {
            return None;
        }
        let beginnings = (SHORTEST..holder.len()).map(|length| holder[..length].to_owned());
        let endings = after_namespace(holder).filter(|part| part.len() >= SHORTEST);
        let other_case = [holder.to_ascii_lowercase(), holder.to_ascii_uppercase()];
        let mut parts = beginnings
            .chain(endings.map(str::to_owned))
            .chain(other_case);
        parts.find(|part| self.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, none_valid: bool) -> Result<ContainerList> {
        ContainerList::parse(text, none_valid, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn an_empty_list_is_refused_unless_it_is_meant() {
        let error = list(" \n\n", false).unwrap_err();
        assert!(error.to_string().contains("--none-valid"), "{error}");
        assert!(list("", true).unwrap().ids.is_empty());
    }

    #[test]
    fn a_line_that_is_no_id_is_named() {
        let error = list("abc\nPOD ID\n", false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("line 2") && text.contains("POD ID"), "{text}");
        assert!(list(" abc \r\n", false).unwrap().contains("abc"));
    }

    #[test]
    fn ids_that_are_not_whole_are_refused() {
        let digits = "8f".repeat(32);
        let uuid = "7cd08c6c-86c8-0bfa-f7ca-338466447711";
        let of_nerdctl = format!("default-{digits}");
        for (entry, holder) in [
            (&digits[..12], digits.as_str()),
            (&digits[..4], digits.as_str()),
            ("7cd08c6c", uuid),
            (digits.as_str(), of_nerdctl.as_str()),
            (digits.to_uppercase().as_str(), digits.as_str()),
        ] {
            let error = list(entry, false).unwrap().refuse_for(&[holder]);
            assert!(
                error.unwrap_err().to_string().contains("--no-trunc"),
                "{entry}"
            );
        }
        // IDs that a person has chosen may begin alike.
        let names = list("web\nweb-2", false).unwrap();
        assert!(names.refuse_for(&["web-1", "web-2"]).is_ok());
    }

    #[test]
    fn a_list_of_names_is_refused_unless_it_is_meant() {
        let digits = "8f".repeat(32);
        let (other, id) = ("9a".repeat(32), [digits.as_str()]);
        let error = list("api", false).unwrap().refuse_for(&id);
        assert!(error.unwrap_err().to_string().contains("--none-valid"));
        for (text, none_valid) in [("api", true), (other.as_str(), false)] {
            let list = list(text, none_valid).unwrap();
            assert!(list.refuse_for(&id).is_ok(), "{text}");
        }
        assert!(list("api", false).unwrap().refuse_for(&["web-1"]).is_ok());
    }
}
