//! Output while containers start and end, and on a terminal.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{Sandbox, needs};

use super::{THERE, add, id, json_of, network};

#[test]
fn nothing_half_written_is_printed_while_containers_come_and_go() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sandbox, config, end) = (&sandbox, &config, &end);
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                scope.spawn(move || {
                    for call in 0..15 {
                        let container = id(&format!("c{caller}a{call}b"));
                        add(sandbox, config, &container, THERE);
                        let del = sandbox.call("ipam-delegated", "DEL", config);
                        del.container(&container).run().nothing();
                    }
                })
            })
            .collect();
        let looking = scope.spawn(move || {
            let mut rows = 0;
            while !end.load(Ordering::Relaxed) {
                for row in json_of(sandbox, &["ls"]).as_array().unwrap() {
                    let state = row["state"].as_str().unwrap();
                    let known = ["adding", "added", "deleting", "reserved"];
                    assert!(known.contains(&state), "{row}");
                    assert_eq!(row["containerID"].as_str().unwrap().len(), 64, "{row}");
                    rows += 1;
                }
                let pools = json_of(sandbox, &["pools"]);
                assert!(pools[0]["reserved"].as_u64().unwrap() <= 8, "{pools}");
            }
            rows
        });
        for caller in callers {
            caller.join().unwrap();
        }
        end.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 0);
    });
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}

/// The output of `ipamctl` on a terminal of this width, with these variables.
fn on_a_terminal(sandbox: &Sandbox, words: &[&str], variables: &[(&str, &str)]) -> String {
    let call = sandbox.ipamctl(words);
    let words: Vec<&str> = call.words().map(|word| word.to_str().unwrap()).collect();
    let mut script = Command::new("/usr/bin/script");
    script
        .args(["--quiet", "--command", &words.join(" "), "/dev/null"])
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(variables.iter().copied());
    let output = script.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn colours_and_cut_columns_are_for_terminals_alone() {
    needs!("/usr/bin/script");
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    let narrow = [("COLUMNS", "60")];
    let shown = on_a_terminal(&sandbox, &["ls"], &narrow);
    assert!(shown.contains("\x1b["), "{shown:?}");
    let plain = on_a_terminal(&sandbox, &["ls"], &[("COLUMNS", "60"), ("NO_COLOR", "1")]);
    assert!(!plain.contains("\x1b["), "{plain:?}");
    let widths = plain.lines().map(|line| line.trim_end().chars().count());
    assert!(widths.max().unwrap() <= 60, "{plain}");
    assert!(plain.contains('…'), "{plain}");
}
