//! Containers start and end continuously while a test changes the plugins.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use harness::waiting::wait_for;
use harness::{Flavour, PLUGINS, RANGES_CHAIN, Release, Sandbox};
use serde_json::{Value, json};

/// Runs ADD, CHECK and DEL of an attachment.
pub(crate) fn a_container_comes_and_goes(sandbox: &Sandbox, container: &str) {
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let mut config = sandbox.config("1.0.0", &RANGES_CHAIN, &ipam);
    let call = |command: &str, config: &Value| {
        let call = sandbox.call("ipam-delegated", command, config);
        call.container(container).run()
    };
    config["prevResult"] = call("ADD", &config).result();
    call("CHECK", &config).nothing();
    call("DEL", &config).nothing();
}

/// Ends the traffic when it is dropped, even after a panic: otherwise the callers would never
/// stop.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `change`, which installs plugins of any release into the sandbox, while three containers
/// start and end without an error.
pub(crate) fn meanwhile(sandbox: &Sandbox, change: impl Fn()) {
    meanwhile_by(sandbox, 3, change);
}

/// As [`meanwhile`], with this number of containers.
pub(crate) fn meanwhile_by(sandbox: &Sandbox, callers: usize, change: impl Fn()) {
    let whole = whole(sandbox);
    let (ended, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for i in 0..callers {
            let (ended, count) = (&ended, &count);
            scope.spawn(move || {
                let _at_end = AtEnd(ended);
                while !ended.load(Ordering::Relaxed) {
                    a_container_comes_and_goes(sandbox, &format!("c{i}"));
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // There are few calls, so a short moment without a plugin might be missed.
        scope.spawn(|| {
            let _at_end = AtEnd(&ended);
            while !ended.load(Ordering::Relaxed) {
                for plugin in PLUGINS {
                    let size = size(sandbox, plugin);
                    assert!(whole.contains(&size), "{plugin}: {size:?} of {whole:?}");
                }
                thread::sleep(Duration::from_micros(20));
            }
        });
        let _at_end = AtEnd(&ended);
        let wait_for = |number: usize| {
            let is_over = || ended.load(Ordering::Relaxed);
            wait_for(|| count.load(Ordering::Relaxed) >= number || is_over());
        };
        wait_for(callers);
        change();
        // Afterwards, calls use the result of the change.
        wait_for(count.load(Ordering::Relaxed) + 2 * callers);
    });
    assert!(sandbox.reserved("testnet").is_empty());
}

/// The size of the plugin that a runtime finds; `None` if it finds none.
fn size(sandbox: &Sandbox, plugin: &str) -> Option<u64> {
    let metadata = fs::metadata(sandbox.plugins().join(plugin));
    metadata.ok().map(|metadata| metadata.len())
}

/// Valid sizes of plugins: of the installed ones and of both releases.
fn whole(sandbox: &Sandbox) -> BTreeSet<Option<u64>> {
    let mut sizes = BTreeSet::from(PLUGINS.map(|plugin| size(sandbox, plugin)));
    for flavour in [Flavour::Normal, Flavour::Verbose] {
        let folder = tempfile::tempdir().unwrap();
        let top = Release::of(flavour).extract(folder.path());
        let metadata = fs::metadata(top.join("bin").join(PLUGINS[0])).unwrap();
        sizes.insert(Some(metadata.len()));
    }
    assert!(!sizes.contains(&None));
    sizes
}
