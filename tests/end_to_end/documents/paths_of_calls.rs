//! The files through which a call passes, as the page about the architecture lists and counts
//! them.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt::Debug;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cni::Environment;
use harness::repository;
use ipam_da_host_local::IpamDaHostLocal;
use ipam_delegated::IpamDelegated;
use ipam_ds_ranges::IpamDsRanges;
use plugin::Linked;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::document;
use super::stale_names::file_of;

/// Most files between the command and the disk.
const MOST_FILES: usize = 8;

/// The code of a file without its tests.
fn product(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    product.to_owned()
}

/// True if a file names a module or type of another file, or calls a function of it.
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

thread_local! {
    /// The stack at the time when the allocator logs a reservation or a release.
    static STACK: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores the stack at this log line of the allocator.
struct StackOf(&'static str);

impl Visit for StackOf {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" && format!("{value:?}") == self.0 {
            STACK.set(Backtrace::force_capture().to_string());
        }
    }
}

impl Subscriber for StackOf {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self(self.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The product's files on the stack when this process logs the line, with the last caller at the
/// end. The process is the executable that contains all plugins.
fn files_on_the_stack(command: &str, folder: &Path, line: &'static str) -> Vec<PathBuf> {
    let (ranges, allocator) = (Linked(&IpamDsRanges), Linked(&IpamDaHostLocal));
    let others = [ranges, allocator];
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let config = json!({
        "cniVersion": "1.0.0",
        "name": "net",
        "ipam": {
            "type": "ipam-delegated",
            "delegates": delegates,
            "ranges": [[{"subnet": "10.1.0.0/24"}]],
            "dataDir": folder.join("data"),
            "cacheDir": folder.join("cache"),
            "stateDir": folder.join("state"),
        },
    });
    let environment = Environment::default()
        .with("CNI_COMMAND", command)
        .with("CNI_CONTAINERID", "c1")
        .with("CNI_IFNAME", "eth0")
        .with("CNI_NETNS", "/proc/self/ns/net")
        .with("CNI_PATH", folder);
    let mut stdin = || Ok::<_, io::Error>(config.to_string().into_bytes());
    let chain = IpamDelegated { others: &others };
    let output = tracing::subscriber::with_default(StackOf(line), || {
        plugin::respond(&chain, &environment, &mut stdin, None)
    });
    assert!(
        output.success,
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let stack = STACK.take();
    let places = stack.lines().rev();
    let places = places.filter_map(|line| line.trim().strip_prefix("at "));
    let mut files = Vec::new();
    for place in places {
        let start = place.find("crates/").unwrap_or(place.len());
        let path = place[start..].split(':').next().unwrap();
        let file = repository().join(path);
        if !path.is_empty() && file.is_file() && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

#[test]
fn an_address_passes_the_files_that_the_page_lists() {
    let page = document("docs/architecture.md");
    let folder = tempfile::tempdir().unwrap();
    for name in ["ipam-ds-ranges", "ipam-da-host-local"] {
        symlink(std::env::current_exe().unwrap(), folder.path().join(name)).unwrap();
    }
    // This file maps commands to functions.
    let table = repository().join("crates/plugins/ipam-da-host-local/src/lib.rs");
    for (row, command, line) in [
        ("| reserve an address |", "ADD", "reserved"),
        ("| release an address |", "DEL", "released"),
    ] {
        let row = page.lines().find(|line| line.starts_with(row)).unwrap();
        let mut listed: Vec<PathBuf> = Vec::new();
        for path in row.split('`').skip(1).step_by(2) {
            let folder = listed.last().and_then(|file| file.parent());
            listed.push(file_of(path, folder.unwrap_or(Path::new(""))));
        }
        let mut passed = files_on_the_stack(command, folder.path(), line);
        passed.retain(|file| *file != table);
        assert!(passed.len() >= 5, "{passed:?}");
        // The line is logged after the later files have returned.
        assert_eq!(passed, listed[..passed.len()], "{row}");
        assert!(listed.len() - passed.len() <= 2, "{passed:?}");
    }
}
