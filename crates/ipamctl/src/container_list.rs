//! A runtime's list of containers, by which `leaks` and `gc` know what is gone.
//!
//! A list releases what it doesn't name, so one that looks wrong is refused: with the beginning of an ID, or,
//! without `--yes`, with no container that holds something here.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cni::ContainerId;

use crate::Context;
use crate::arguments::{ListArguments, read_text};
use crate::inventory::NetworkAttachment;
use crate::output::times::rounded;

/// Container IDs.
#[derive(Clone, Debug)]
pub(crate) struct ContainerList {
    ids: HashSet<String>,
    /// The list isn't older than this: a container that began later isn't in it.
    made: SystemTime,
    /// What is younger is kept: it is in no list yet.
    older_than: Duration,
    /// True if a person says that an unlikely list is right.
    is_confirmed: bool,
}

impl ContainerList {
    /// Reads the list of the command line, if there is one: a file with an ID a line; `-` is
    /// stdin.
    ///
    /// # Errors
    ///
    /// A file that can't be read, a line that is not an ID, a list beside a kubeconfig.
    pub(crate) fn read(arguments: &ListArguments, context: &Context<'_>) -> Result<Option<Self>> {
        let Some(file) = &arguments.valid else {
            return Ok(None);
        };
        // The containers of one node are in no list of another one.
        let advice = "a list is of one node: run it there, without --kubeconfig";
        ensure!(context.sources.kubeconfig.is_none(), advice);
        // The command at the other end of a pipe was started at the same time.
        let mut made = SystemTime::now();
        if file != Path::new("-") {
            let changed = fs::metadata(file).and_then(|metadata| metadata.modified());
            made = made.min(changed.with_context(|| file.display().to_string())?);
        }
        Ok(Some(Self {
            ids: parse(&read_text(file)?)?,
            made,
            older_than: arguments.older_than,
            is_confirmed: arguments.yes,
        }))
    }

    /// True if the container is in the list.
    pub(crate) fn contains(&self, container: &str) -> bool {
        self.ids.contains(container)
    }

    /// The reason to keep something that changed at this time: the list may not have it yet. A time in the
    /// future says nothing if its network namespace is gone.
    pub(crate) fn too_young(&self, changed: Option<SystemTime>, is_gone: bool) -> Option<String> {
        let Some(changed) = changed else {
            return Some("its age is unknown".to_owned());
        };
        if changed > SystemTime::now() {
            return (!is_gone).then(|| "its time is in the future".to_owned());
        }
        let age = self.made.duration_since(changed);
        let is_old = age.is_ok_and(|age| age >= self.older_than);
        (!is_old).then(|| format!("it is younger than {}", rounded(self.older_than)))
    }

    /// Refuses a list with shortened IDs, and, if nobody has said `--yes`, an unlikely one.
    ///
    /// # Errors
    ///
    /// It has the beginning of a holder's ID, or names none of the attachments.
    pub(crate) fn refuse_wrong(&self, attachments: &[NetworkAttachment<'_>]) -> Result<()> {
        self.refuse_shortened(attachments)?;
        self.refuse_unlikely(attachments)
    }

    /// Refuses an ID that was shortened or cut off: the container of the whole one would be released.
    fn refuse_shortened(&self, attachments: &[NetworkAttachment<'_>]) -> Result<()> {
        let holders: BTreeSet<&str> = attachments.iter().filter_map(|one| one.container).collect();
        for id in self.ids.iter().filter(|id| ends_in_digits(id)) {
            let whole = holders.range(id.as_str()..).next();
            if let Some(whole) = whole.filter(|whole| whole.starts_with(id) && *whole != id) {
                bail!(
                    "the list of valid containers has {id}, which is only the beginning of {whole}: IDs \
                     must be whole (--no-trunc), and the list, too"
                );
            }
        }
        Ok(())
    }

    /// Refuses an empty list, and one that names none of these attachments: the command that has
    /// made it may have failed, or prints names or shortened IDs. With `--yes`, it is accepted.
    fn refuse_unlikely(&self, attachments: &[NetworkAttachment<'_>]) -> Result<()> {
        let mut listable = attachments.iter().filter(|one| !one.is_docker());
        let names_one = listable.any(|one| one.container.is_some_and(|id| self.contains(id)));
        let holder = attachments.iter().find_map(|one| one.container);
        ensure!(
            self.is_confirmed || names_one || (holder.is_none() && !self.ids.is_empty()),
            "the list of valid containers names nothing that holds an address here, such as {}. IDs \
             must be whole, as the runtime passes them to CNI (--no-trunc; of ctr and nerdctl, \
             NAMESPACE-ID). If the list is right, say --yes",
            holder.unwrap_or("a container")
        );
        Ok(())
    }
}

/// True if the last twelve characters are hexadecimal digits, as in a generated ID.
fn ends_in_digits(id: &str) -> bool {
    let digits = id.bytes().rev().take_while(u8::is_ascii_hexdigit);
    digits.count() >= 12
}

fn parse(text: &str) -> Result<HashSet<String>> {
    let mut ids = HashSet::new();
    let lines = text.lines().map(str::trim).enumerate();
    for (i, id) in lines.filter(|(_, id)| !id.is_empty()) {
        let parsed: Result<ContainerId, _> = id.parse();
        let line = format!("the list of valid containers, line {}", i + 1);
        parsed.map_err(|error| anyhow!("{line}: {id:?} is not a container ID: {error}"))?;
        ids.insert(id.to_owned());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Row, attachments};

    #[test]
    fn a_list_with_the_beginning_of_an_id_is_refused_and_both_are_named() {
        let whole = "8f3e52c1a0b9d7e6f5c4b3a29180706";
        let other = "default-8f3e52c1a0b9d7e6";
        let row = |container: &str| Row {
            network: Some("n".to_owned()),
            container: Some(container.to_owned()),
            ..Row::default()
        };
        let rows = [row(whole), row(other), row("web-10"), row("8f3e52c1a0b8")];
        for (line, named) in [
            (&whole[..12], Some(whole)),
            (&whole[..30], Some(whole)),
            (&other[..20], Some(other)),
            (whole, None),
            ("web-1", None),
            (&whole[..11], None),
            ("8f3e52c1a0b8", None),
            ("8f3e52c1a0b7", None),
        ] {
            let list = ContainerList {
                ids: parse(line).unwrap(),
                made: SystemTime::UNIX_EPOCH,
                older_than: Duration::ZERO,
                is_confirmed: true,
            };
            let refused = list.refuse_shortened(&attachments(&rows)).err();
            let text = refused.map(|error| error.to_string()).unwrap_or_default();
            let is_named = |id: &str| text.contains(&format!(" {id}"));
            assert_eq!(!text.is_empty(), named.is_some(), "{line}");
            assert!(
                named.is_none_or(|id| is_named(id) && is_named(line)),
                "{text}"
            );
        }
    }
}
