//! Writes the man pages and the shell completions of `ipamctl` below a folder, as they are
//! below `share` in a release archive.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

/// The folder of each shell's completions.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let share = std::env::args_os().nth(1).ok_or("usage: share FOLDER")?;
    let share = PathBuf::from(share);
    for (shell, folder) in COMPLETIONS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let path = generate_to(shell, &mut ipamctl::command_line(), "ipamctl", &folder)?;
        // clap_complete names bash's file ipamctl.bash; bash-completion looks for the command.
        if shell == Shell::Bash {
            fs::rename(path, folder.join("ipamctl"))?;
        }
    }
    man_pages(&share.join("man/man8"))
}

/// Writes a page for the command, and one for each of its subcommands.
fn man_pages(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut command = ipamctl::command_line();
    command.build();
    let subcommands: Vec<Command> = command
        .get_subcommands()
        .filter(|subcommand| subcommand.get_name() != "help")
        .cloned()
        .collect();
    let named = |subcommand: Command| {
        let name = format!("ipamctl-{}", subcommand.get_name());
        (name.clone(), subcommand.display_name(name))
    };
    let pages = subcommands.into_iter().map(named);
    for (name, command) in pages.chain([("ipamctl".to_owned(), command)]) {
        let mut page = fs::File::create(folder.join(format!("{name}.8")))?;
        Man::new(command).section("8").render(&mut page)?;
    }
    Ok(())
}
