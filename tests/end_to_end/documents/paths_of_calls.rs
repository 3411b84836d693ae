//! The files that a call passes, as the page about the architecture lists and counts them.

use std::fs;
use std::path::{Path, PathBuf};

use super::document;
use super::stale_names::file_of;

/// Most files between the command and the disk.
const MOST_FILES: usize = 8;

/// The text of a file without its tests.
fn product(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    product.to_owned()
}

/// True if a file names another one's module or type, or calls a function of it.
fn uses(file: &Path, other: &Path) -> bool {
    let text = product(file);
    let stem = other.file_stem().unwrap().to_str().unwrap();
    let without_case = |text: &str| text.replace('_', "").to_lowercase();
    let other = product(other);
    let mut functions = other.split("fn ").skip(1).filter_map(|function| {
        let (name, _) = function.split_once(['(', '<'])?;
        Some(name).filter(|name| *name != "new")
    });
    without_case(&text).contains(&without_case(stem))
        || functions.any(|name| {
            [".NAME(", ".NAME::<"]
                .iter()
                .any(|call| text.contains(&call.replace("NAME", name)))
        })
}

#[test]
fn each_file_that_a_call_passes_is_used_by_one_before_it_and_they_are_few() {
    let page = document("docs/architecture.md");
    let (_, section) = page.split_once("The files that a call passes").unwrap();
    let rows = section.lines().take_while(|line| !line.starts_with('#'));
    let rows: Vec<&str> = rows
        .filter(|line| line.starts_with('|') && line.contains(".rs`"))
        .collect();
    assert!(rows.len() >= 4, "{rows:?}");
    for row in rows {
        let number = row.split('|').nth(2).unwrap().trim();
        let mut passed: Vec<PathBuf> = Vec::new();
        for path in row.split('`').skip(1).step_by(2) {
            let folder = passed.last().and_then(|file| file.parent());
            let file = file_of(path, folder.unwrap_or(Path::new("")));
            assert!(file.is_file(), "{path} in {row}");
            let is_used = passed.iter().any(|before| uses(before, &file));
            assert!(passed.is_empty() || is_used, "{path} in {row}");
            passed.push(file);
        }
        assert_eq!(number, passed.len().to_string(), "{row}");
        assert!(passed.len() <= MOST_FILES, "{row}");
    }
}
