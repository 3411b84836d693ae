//! Output while containers start and end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{THERE, add, id, json_of, with};

#[test]
fn nothing_half_written_is_printed_while_containers_come_and_go() {
    let (sandbox, config) = with(&[]);
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
            while !end.load(Ordering::Relaxed) {
                for row in json_of(sandbox, &["ls"]).as_array().unwrap() {
                    let state = row["state"].as_str().unwrap();
                    let known = ["adding", "added", "deleting", "reserved"];
                    assert!(known.contains(&state), "{row}");
                    assert_eq!(row["containerID"].as_str().unwrap().len(), 64, "{row}");
                }
                let pools = json_of(sandbox, &["pools"]);
                assert!(pools[0]["reserved"].as_u64().unwrap() <= 8, "{pools}");
            }
        });
        for caller in callers {
            caller.join().unwrap();
        }
        end.store(true, Ordering::Relaxed);
        looking.join().unwrap();
    });
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}
