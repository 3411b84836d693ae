//! Fuzz target of reservation files and `last_reserved_ip.<i>`.

mod contents;
mod directory;

use std::net::IpAddr;

use bolero::TypeGenerator;
use fuzz::{Outcome, Sandbox, Snapshot, call, check, environment};
use serde_json::{Value, json};

use contents::Contents;
use directory::{Directory, Says};

/// A directory as it is found, and what is asked of it.
#[derive(Clone, Debug, TypeGenerator)]
struct Input {
    directory: Contents,
    /// With some values, one of the range's addresses is asked for.
    requested: u8,
    /// The pool has a name, and so the directory.
    named: bool,
}

impl Input {
    fn requested(&self) -> Option<IpAddr> {
        let ips = directory::range();
        ips.get(usize::from(self.requested) % 20).copied()
    }

    fn pool(&self) -> Value {
        let mut pool = json!({"subnet": "10.0.0.0/29"});
        if self.named {
            pool["name"] = json!("blue");
        }
        if let Some(ip) = self.requested() {
            pool["requested-ip"] = json!(ip);
        }
        pool
    }

    fn config(&self, sandbox: &Sandbox, ips: &[String]) -> Vec<u8> {
        let address = |ip: &String| json!({"address": format!("{ip}/32")});
        let ips: Vec<Value> = ips.iter().map(address).collect();
        let config = json!({"cniVersion": "1.1.0", "name": "testnet", "ipam": {},
            "prevResult": {"ips": ips, "pools": [self.pool()]}});
        sandbox.confine(serde_json::to_vec(&config).unwrap())
    }
}

#[test]
fn what_is_given_was_free_and_what_is_others_stays() {
    let plugin = &ipam_da_host_local::IpamDaHostLocal;
    check!(Input, |input| {
        let sandbox = Sandbox::default();
        let name = if input.named { "pools" } else { "testnet" };
        let path = sandbox.data_dir().join(name);
        input.directory.write(&path);
        let directory = Directory::at(&path, !input.named);
        let free: Vec<String> = directory::range()
            .into_iter()
            .filter(|ip| matches!(directory.says(*ip), Says::Nothing | Says::Torn))
            .map(|ip| ip.to_string())
            .collect();
        let before = others(&path, !input.named);
        let add = environment("ADD", &sandbox.plugins());
        let ask = |command: &str, ips: &[String]| {
            let variables = add.clone().with("CNI_COMMAND", command);
            let config = input.config(&sandbox, ips);
            call(plugin, &variables, &config)
        };

        let given = ask("ADD", &[]);
        for ip in given.ips() {
            assert!(free.contains(&ip), "{ip} of {free:?}");
        }
        assert_eq!(others(&path, !input.named), before);
        if given.code().is_none() {
            assert_eq!(ask("CHECK", &given.ips()).code(), None);
        }
        // An attachment whose container holds an address as a whole, as old
        // files have it, lets go of that one in a DEL of its own.
        for _ in 0..2 {
            assert_eq!(ask("DEL", &given.ips()), Outcome::Success(Vec::new()));
            assert_eq!(others(&path, !input.named), before);
        }
        let left = directory.held_by_us();
        assert!(left.is_empty(), "still held: {left:?}");
        sandbox.assert_nothing_got_out();
    });
}

/// The reservations that are somebody else's, and all other files that aren't ours
/// to write.
fn others(path: &std::path::Path, own: bool) -> Snapshot {
    let mut all = Sandbox::snapshot(path);
    all.retain(|file, content| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_reservation = name
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_string() == name);
        let is_written_by_us =
            ["lock", "unfinished.tmp"].contains(&&*name) || name.starts_with("last_reserved_ip.");
        let may_go = is_reservation && Says::by(content, own) != Says::Others;
        !is_written_by_us && !may_go
    });
    all
}
