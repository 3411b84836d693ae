//! `ipamctl` in an archive: the executable, its man pages, its completions, and units for
//! systemd timers.

use std::fs;

use anyhow::{Context, Result, ensure};
use clap_complete::Shell;
use clap_complete::generate;
use clap_mangen::Man;
use harness::{TOOL, repository};

use super::archive::Archive;
use crate::build::static_tools;

/// The folder of the units in the repository.
const UNITS: &str = "docs/systemd";

/// Completions: the shell, and the file in an archive.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/ipamctl"),
    (Shell::Zsh, "share/zsh/site-functions/_ipamctl"),
    (Shell::Fish, "share/fish/vendor_completions.d/ipamctl.fish"),
];

/// Adds all of it. It is not among the plugins, since a runtime looks for these in one
/// folder; and it is built without them, so that nothing of it is linked into a plugin.
pub(super) fn add(archive: &mut Archive) -> Result<()> {
    let built = static_tools()?;
    let file = built.separate.join(TOOL);
    let content = fs::read(&file).with_context(|| format!("{}", file.display()))?;
    archive.executable(&[format!("sbin/{TOOL}")], content);
    man_pages(archive)?;
    for (shell, path) in COMPLETIONS {
        let mut script = Vec::new();
        generate(shell, &mut ipamctl::command_line(), TOOL, &mut script);
        archive.text(path, script);
    }
    units(archive)
}

/// A page for the command, and one for each of its subcommands.
fn man_pages(archive: &mut Archive) -> Result<()> {
    let mut command = ipamctl::command_line();
    command.build();
    let subcommands: Vec<clap::Command> = command
        .get_subcommands()
        .filter(|it| it.get_name() != "help")
        .cloned()
        .collect();
    let named = |it: clap::Command| {
        let name = format!("{TOOL}-{}", it.get_name());
        (name.clone(), it.display_name(name))
    };
    let pages = subcommands.into_iter().map(named);
    for (name, command) in pages.chain([(TOOL.to_owned(), command)]) {
        let mut page = Vec::new();
        Man::new(command).section("8").render(&mut page)?;
        archive.text(&format!("share/man/man8/{name}.8"), page);
    }
    Ok(())
}

fn units(archive: &mut Archive) -> Result<()> {
    let folder = repository().join(UNITS);
    let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut added = 0;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        archive.text(&format!("lib/systemd/system/{name}"), fs::read(&path)?);
        added += 1;
    }
    ensure!(added > 0, "{UNITS} is empty");
    Ok(())
}
