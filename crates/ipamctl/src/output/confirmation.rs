//! Asks a person for a confirmation.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Result, ensure};

/// Asks a person to type the node's name, with this text.
pub(crate) fn is_confirmed(node: &str, text: &str) -> Result<bool> {
    ensure!(
        io::stdin().is_terminal(),
        "stdin is not a terminal, so nobody can be asked: --yes skips the question"
    );
    let mut stderr = io::stderr();
    write!(stderr, "{text}")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == node)
}
