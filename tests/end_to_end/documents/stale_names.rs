//! Looks for stale names in the documents: files, modules, keys, variables, commands and
//! options that no longer exist.
//!
//! The search is simple: a name exists if it occurs in the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use harness::repository;

use super::{document, documents};

/// Crates that don't read keys of a network configuration.
const OTHERS: [&str; 6] = [
    "bench",
    "docker-ipam-delegated",
    "fuzz",
    "ipam-installer",
    "ipamctl",
    "xtask",
];

const TOP_FOLDERS: [&str; 4] = ["crates/", "docs/", "testdata/", "tests/"];

/// Keys that plugins read and other specifications define.
const KEYS_OF_CNI: [&str; 6] = [
    "address",
    "domain",
    "gw",
    "options",
    "search",
    "nameservers",
];

/// The files below a folder with this ending of their names.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// The sources in a folder of the repository, without the tests at the end of files.
fn sources(folder: &str) -> String {
    let all = files(&repository().join(folder), ".rs").into_iter();
    let in_src = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "src");
    all.filter(in_src)
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            product.to_owned()
        })
        .collect()
}

/// The sources of the crates that read keys of a network configuration.
fn readers_of_keys() -> String {
    let crates = fs::read_dir(repository().join("crates")).unwrap();
    crates
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !OTHERS.contains(&name.as_str()))
        .map(|name| sources(&format!("crates/{name}")))
        .collect()
}

/// The file of a path as the pages write it: relative to the repository's root, to a crate's
/// sources (`chain/del.rs`), or to the folder of the previous path.
pub(super) fn file_of(path: &str, folder: &Path) -> PathBuf {
    let root = repository();
    if TOP_FOLDERS.iter().any(|top| path.starts_with(top)) {
        return root.join(path);
    }
    if let Some((name, rest)) = path.split_once('/') {
        for crates in ["crates", "crates/plugins"] {
            let sources = root.join(crates).join(name).join("src");
            if sources.is_dir() {
                return sources.join(rest);
            }
        }
    }
    folder.join(path)
}

/// The pages for users, and the README of each crate.
fn all_pages() -> Vec<(String, String)> {
    let readmes = files(&repository().join("crates"), "README.md").into_iter();
    let readmes = readmes.map(|path| {
        let path = path.strip_prefix(repository()).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let text = document(&path);
        (path, text)
    });
    documents().into_iter().chain(readmes).collect()
}

/// The words in backquotes, outside of blocks.
fn quoted(text: &str) -> Vec<String> {
    let mut in_block = false;
    let mut words = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            words.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    words
}

/// The names that start with `start` and consist of these characters.
fn names_with<'a>(text: &'a str, start: &str, is_part: fn(char) -> bool) -> BTreeSet<&'a str> {
    text.match_indices(start)
        .map(|(at, _)| {
            let rest = &text[at..];
            let end = rest[start.len()..].find(|c| !is_part(c));
            &rest[..end.map_or(rest.len(), |end| start.len() + end)]
        })
        .collect()
}

#[test]
fn every_file_that_a_page_names_exists() {
    let mut missing = Vec::new();
    let mut count = 0;
    for (page, text) in all_pages() {
        let mut folder = repository().join(&page).with_file_name("src");
        for word in quoted(&text) {
            let is_source = word.ends_with(".rs");
            let is_path = is_source || TOP_FOLDERS.iter().any(|top| word.starts_with(top));
            let is_example = word.contains(['<', '*', ' ', '{']) || word.ends_with("NAME.rs");
            if !is_path || is_example {
                continue;
            }
            count += 1;
            let file = file_of(&word, &folder);
            if !file.exists() {
                missing.push(format!("{page}: {word}"));
            } else if is_source {
                file.parent().unwrap().clone_into(&mut folder);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 50, "{count}");
}

/// The tables of a crate's README with the title `module` or `room`.
#[test]
fn every_module_that_a_crates_readme_lists_exists() {
    let mut count = 0;
    for (page, text) in all_pages() {
        let sources = repository().join(&page).with_file_name("src");
        if !sources.is_dir() {
            continue;
        }
        let names: BTreeSet<String> = files(&sources, ".rs")
            .iter()
            .flat_map(|path| path.strip_prefix(&sources).unwrap().iter())
            .map(|part| part.to_str().unwrap().trim_end_matches(".rs").to_owned())
            .collect();
        let rows = text
            .lines()
            .skip_while(|line| !line.starts_with("| module |") && !line.starts_with("| room |"))
            .take_while(|line| line.starts_with('|'));
        for row in rows.skip(2) {
            for name in quoted(row.split(" | ").next().unwrap()) {
                count += 1;
                assert!(names.contains(&name), "{page}: {name}");
            }
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn the_architecture_names_every_crate() {
    let page = document("docs/architecture.md");
    for crates in ["crates", "crates/plugins"] {
        for entry in fs::read_dir(repository().join(crates)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_crate = path.join("Cargo.toml").exists();
            let is_named = page.contains(&format!("`{name}`"));
            assert!(!is_crate || is_named, "{name}");
        }
    }
}

/// The keys in the first column of the tables of `docs/configuration.md`.
fn documented_keys() -> BTreeSet<String> {
    let page = document("docs/configuration.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut keys = BTreeSet::new();
    for row in rows {
        for key in quoted(row.split(" | ").next().unwrap()) {
            let last = key.rsplit(['.', '[']).next().unwrap();
            let key = last.trim_matches(['"', ']']);
            // These rows are about files and etcd's keys.
            if !key.contains(['<', '/', '-']) {
                keys.insert(key.to_owned());
            }
        }
    }
    keys
}

fn snake_case(key: &str) -> String {
    let mut name = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The name of a command in the sources.
fn camel_case(command: &str) -> String {
    let words = command.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    words.collect()
}

#[test]
fn every_documented_key_is_read() {
    let sources = readers_of_keys();
    let keys = documented_keys();
    assert!(keys.len() > 40, "{keys:?}");
    for key in keys {
        let is_read = sources.contains(&format!("\"{key}\""))
            || sources.contains(&format!(" {}:", snake_case(&key)));
        assert!(is_read, "docs/configuration.md: nothing reads {key}");
    }
}

#[test]
fn every_key_that_is_read_is_documented() {
    let page = document("docs/configuration.md");
    let sources = readers_of_keys();
    let mut count = 0;
    // `object.read("ipam", "dataDir")`, perhaps with a type.
    for call in sources.split(".read").skip(1) {
        let call = call.split(")?").next().unwrap();
        let last = call.rsplit(", \"").next();
        let Some(key) = last.and_then(|key| key.strip_suffix('"')) else {
            continue;
        };
        let is_key = !call.contains('\n') && !key.contains([' ', '(', '{']);
        if is_key && !KEYS_OF_CNI.contains(&key) {
            count += 1;
            assert!(page.contains(key), "{key} is in no table");
        }
    }
    assert!(count > 15, "{count}");
}

#[test]
fn every_environment_variable_is_documented_and_read() {
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let sources = sources("crates");
    let tests = files(&repository().join("tests"), ".rs").into_iter();
    let tests: String = tests
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let pages: String = documents().into_iter().map(|(_, text)| text).collect();
    let read = names_with(&sources, "IPAM_DELEGATED_", is_part);
    // Variables of the build and the tests are for developers.
    let of_developers = [
        "COMMIT",
        "DIST",
        "FORM",
        "LEFT_OUT",
        "PLUGINS",
        "VERBOSE_PLUGINS",
        "SYS",
        "SEED",
        "CASES",
    ];
    for name in &read {
        let is_of_developers = of_developers
            .iter()
            .any(|end| name.strip_prefix("IPAM_DELEGATED_") == Some(end));
        assert!(
            is_of_developers || pages.contains(name),
            "{name} is in no page"
        );
    }
    for name in names_with(&pages, "IPAM_DELEGATED_", is_part) {
        assert!(
            sources.contains(name) || tests.contains(name),
            "nothing reads {name}"
        );
    }
}

#[test]
fn every_command_and_option_of_our_programs_exists() {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '-' || c.is_ascii_digit();
    let programs = [
        ("cargo xtask", "crates/xtask/src"),
        ("ipamctl", "crates/ipamctl/src"),
        ("ipam-installer", "crates/ipam-installer/src"),
        ("docker-ipam-delegated", "crates/docker-ipam-delegated/src"),
    ];
    let bench = sources("crates/bench/src");
    let mut count = 0;
    for (program, folder) in programs {
        let sources = sources(folder) + &bench;
        let exists = |option: &str| {
            let name = option.trim_start_matches('-');
            sources.contains(option) || sources.contains(&format!(" {}:", name.replace('-', "_")))
        };
        for (page, text) in all_pages() {
            let commands = text
                .lines()
                .flat_map(|line| line.split(['`', '|', ';', '&', '#']));
            let calls = commands
                .filter_map(|command| command.trim().strip_prefix(program)?.strip_prefix(' '));
            for call in calls {
                let word = call.split(' ').next().unwrap();
                let is_command =
                    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(is_part);
                assert!(
                    !is_command || sources.contains(&camel_case(word)),
                    "{page}: {program} {call}"
                );
                for option in names_with(call, " --", is_part) {
                    let option = option.trim();
                    count += 1;
                    assert!(
                        option == "--"
                            || option == "--help"
                            || option == "--version"
                            || exists(option),
                        "{page}: {program} {call}"
                    );
                }
            }
        }
    }
    assert!(count > 30, "{count}");
}
