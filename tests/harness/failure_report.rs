//! Report of a failed test: lists the files in its sandbox.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Most files that are shown.
const FILES: usize = 100;

/// Most bytes that are shown of a file.
const BYTES: u64 = 10_000;

/// The paths of the regular files in a folder, with the start of each text file.
pub(crate) fn files(folder: &Path) -> String {
    let mut report = format!("files in {}:\n", folder.display());
    let mut count = 0;
    add(folder, &mut report, &mut count);
    if count > FILES {
        let _ = writeln!(report, "… and {} more", count - FILES);
    }
    report
}

fn add(folder: &Path, report: &mut String, count: &mut usize) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            add(&path, report, count);
        } else if metadata.is_file() {
            *count += 1;
            if *count <= FILES {
                let size = metadata.len();
                let _ = writeln!(report, "{} ({size} bytes)", path.display());
                let _ = writeln!(report, "{}", start_of(&path));
            }
        }
    }
}

/// The start of a text file; nothing of other files.
fn start_of(path: &Path) -> String {
    let mut bytes = Vec::new();
    let start = File::open(path).map(|file| file.take(BYTES));
    let is_read = start.is_ok_and(|mut start| start.read_to_end(&mut bytes).is_ok());
    if !is_read || bytes.contains(&0) {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last 15 lines of a file; empty if it is missing.
#[cfg(feature = "tls")]
pub(crate) fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
