//! Writes the manifests of the kinds into a folder: the first argument.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder: PathBuf = env::args_os().nth(1).expect("a folder").into();
    for (name, content) in kubernetes::manifests() {
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}
