//! Containers come and go without a pause while a test does something to the plugins.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Flavour, PLUGINS, Release, Sandbox};
use serde_json::{Value, json};

/// An attachment from ADD to DEL.
pub(crate) fn a_container_comes_and_goes(sandbox: &Sandbox, container: &str) {
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &ipam);
    let call = |command: &str, config: &Value| {
        let call = sandbox.call("ipam-delegated", command, config);
        call.container(container).run()
    };
    config["prevResult"] = call("ADD", &config).result();
    call("CHECK", &config).nothing();
    call("DEL", &config).nothing();
}

/// Ends the traffic, also after a failure: the callers would never stop.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Puts other plugins into the sandbox, of whatever release, while three containers
/// come and go without an error.
pub(crate) fn meanwhile(sandbox: &Sandbox, change: impl Fn()) {
    meanwhile_by(sandbox, 3, change);
}

/// The same with so many containers that come and go.
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
        // Calls are few, and a moment without a plugin may be short.
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
        change();
        // Its leftovers are used, too.
        let so_far = count.load(Ordering::Relaxed);
        assert!(so_far > 0, "nobody came");
        while count.load(Ordering::Relaxed) < so_far + 2 * callers && !ended.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(sandbox.reserved("testnet").is_empty());
}

/// The size of what a runtime finds; `None` if it finds nothing.
fn size(sandbox: &Sandbox, plugin: &str) -> Option<u64> {
    let metadata = fs::metadata(sandbox.plugins().join(plugin));
    metadata.ok().map(|metadata| metadata.len())
}

/// Sizes of complete plugins: the installed ones and those of both releases.
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
