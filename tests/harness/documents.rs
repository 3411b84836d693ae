//! Reads the documents, and their code blocks.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::{Sandbox, repository};

/// The text of a document, by its path in the repository.
pub fn document(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The code blocks in this language, which may be none, without the indentation of a list.
pub fn blocks(document: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some((indent, fence)) = line.split_once("```") {
            let block: Vec<&str> = lines
                .by_ref()
                .take_while(|line| line.trim() != "```")
                .map(|line| line.strip_prefix(indent).unwrap_or(line))
                .collect();
            if fence == language {
                blocks.push(block.join("\n") + "\n");
            }
        }
    }
    blocks
}

/// Compares the outputs of `ipamctl` in the `console` blocks of a page's section with those on a node
/// of the sandbox; `before` gets each command before it runs. The section begins with this heading,
/// such as `## Leaks`. With `IPAM_DELEGATED_WRITE_DOCS=1`, writes the outputs instead. Returns the
/// number of commands.
pub fn replay(
    page: &str,
    heading: &str,
    sandbox: &Sandbox,
    stdin: &str,
    mut before: impl FnMut(&str),
) -> usize {
    let text = document(page);
    let found = text.find(&format!("{heading}\n"));
    let start = found.unwrap_or_else(|| panic!("{page} has no section {heading:?}"));
    let end = start + section(&text[start..]).len();
    let (mut made, mut commands) = (text[..start].to_owned(), 0);
    let mut lines = text[start..end].lines();
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let mut printed = String::new();
        for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
            before(command);
            printed += &format!("$ {command}\n{}", output(sandbox, command, stdin));
            commands += 1;
        }
        if !writes_documents() {
            assert_eq!(printed.lines().collect::<Vec<_>>(), block, "{page}");
        }
        made += &format!("{printed}```\n");
    }
    if writes_documents() {
        fs::write(repository().join(page), made + &text[end..]).unwrap();
    }
    commands
}

/// The text from its heading to the next one of the same or a higher level.
fn section(text: &str) -> &str {
    let level = |line: &str| line.bytes().take_while(|byte| *byte == b'#').count();
    let (own, mut end, mut is_code) = (level(text), 0, false);
    for line in text.split_inclusive('\n') {
        is_code ^= line.trim_start().starts_with("```");
        if end > 0 && !is_code && (1..=own).contains(&level(line)) {
            break;
        }
        end += line.len();
    }
    &text[..end]
}

fn writes_documents() -> bool {
    std::env::var_os("IPAM_DELEGATED_WRITE_DOCS").is_some()
}

/// Makes a reservation or a record this many hours old, and a minute: by the time of its last change,
/// and by the times in a record. So a page's ages don't depend on the time that the test takes.
pub fn make_old(file: &Path, hours: u64) {
    const AT: &str = "\"at\":\"";
    let then = SystemTime::now() - Duration::from_secs(hours * 3_600 + 60);
    let content = fs::read_to_string(file).unwrap();
    let mut parts = content.split(AT);
    let mut old = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once('"').unwrap();
        old += &format!("{AT}{}\"{rest}", humantime::format_rfc3339_nanos(then));
    }
    fs::write(file, old).unwrap();
    let written = fs::File::options().append(true).open(file).unwrap();
    written.set_modified(then).unwrap();
}

/// The output of a command with the paths that a page has.
fn output(sandbox: &Sandbox, command: &str, stdin: &str) -> String {
    let places = [
        (sandbox.conf_dir(), "/etc/cni/net.d"),
        (sandbox.data_dir(), "/var/lib/cni/networks"),
        (sandbox.state_dir(), "/var/lib/cni/ipam-delegated"),
        (sandbox.docker_state(), "/var/lib/cni/docker-ipam-delegated"),
        (sandbox.plugins(), "/opt/cni/bin"),
        (sandbox.root().join("netns"), "/run/netns"),
    ];
    let mut words = command.rsplit("ipamctl ").next().unwrap().to_owned();
    for (real, written) in &places {
        words = words.replace(written, real.to_str().unwrap());
    }
    let words: Vec<&str> = words.split(' ').collect();
    let mut printed = sandbox.ipamctl(&words).stdin(stdin).run().stdout;
    // A printed command has this node's options, which the page omits.
    let options = sandbox.ipamctl_line().into_iter().skip(1);
    let options: String = options
        .map(|option| format!("{} ", option.display()))
        .collect();
    printed = printed.replace(&options, "");
    for (real, written) in &places {
        printed = printed.replace(real.to_str().unwrap(), written);
    }
    printed
}
