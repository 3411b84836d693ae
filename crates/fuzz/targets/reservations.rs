//! Fuzz target of reservation files and `last_reserved_ip.<i>`.

mod contents;
mod directory;

use std::fs;
use std::net::IpAddr;

use bolero::{TypeGenerator, check};
use fuzz::{Outcome, Sandbox, Snapshot, TEST_TIME, Variables, call, watched};
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
        let ips: Vec<Value> = ips.iter().map(|ip| json!({"address": ip})).collect();
        let config = json!({"cniVersion": "1.1.0", "name": "testnet", "ipam": {},
            "prevResult": {"ips": ips, "pools": [self.pool()]}});
        sandbox.confine(serde_json::to_vec(&config).unwrap())
    }

    /// The expected answer of ADD: an address, or the code of a failure.
    fn expected(&self, directory: &Directory) -> Result<IpAddr, u64> {
        let says = |ip: &IpAddr| directory.says(*ip);
        let range = directory::range();
        let is_ours = |ip: &IpAddr| matches!(says(ip), Says::Ours | Says::OurContainers);
        if is_ours(&directory::gateway()) || range.iter().any(is_ours) {
            return Err(110);
        }
        let is_free = |ip: &IpAddr| matches!(says(ip), Says::Nothing | Says::Torn);
        if let Some(ip) = self.requested() {
            return if is_free(&ip) { Ok(ip) } else { Err(111) };
        }
        let last = directory.last().filter(|ip| range.contains(ip));
        let (after, up_to) = range
            .iter()
            .partition::<Vec<IpAddr>, _>(|ip| last.is_some_and(|last| **ip > last));
        let mut order = after.into_iter().chain(up_to);
        order.find(is_free).ok_or(11)
    }
}

/// The address that a refusal with 110 names.
fn earlier_address(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Failure { code: 110, msg, .. } => {
            let (_, rest) = msg.split_once(" has ")?;
            rest.split(' ').next()
        }
        _ => None,
    }
}

#[test]
fn what_is_given_is_the_next_free_address_and_what_is_others_stays() {
    let plugin = &ipam_da_host_local::IpamDaHostLocal;
    check!()
        .with_type::<Input>()
        .with_test_time(TEST_TIME)
        .for_each(|input: &Input| {
            let sandbox = Sandbox::new();
            let name = if input.named { "blue" } else { "testnet" };
            let path = sandbox.data_dir().join(name);
            input.directory.write(&path);
            let directory = Directory::at(&path, !input.named);
            let (expected, before) = (input.expected(&directory), others(&path, !input.named));
            let add = Variables::new("ADD", &sandbox.plugins());
            let ask = |command: &str, ips: &[String]| {
                let variables = add.clone().with("CNI_COMMAND", command);
                let config = input.config(&sandbox, ips);
                watched(input, || call(plugin, &variables, &config))
            };

            let given = ask("ADD", &[]);
            match expected {
                Ok(ip) => assert_eq!(given.ips(), [ip.to_string()], "{given:?}"),
                Err(code) => match earlier_address(&given) {
                    // Whatever it fails with: it holds an earlier ADD's address.
                    Some(ip) => {
                        let holder = fs::read_to_string(path.join(ip)).unwrap();
                        assert!(holder.contains("c1"), "{given:?}: {holder}");
                    }
                    None => assert_eq!(given.code(), Some(code), "{given:?}"),
                },
            }
            assert_eq!(others(&path, !input.named), before);
            if given.code().is_none() {
                assert_eq!(ask("CHECK", &given.ips()).code(), None);
                assert_eq!(ask("ADD", &[]).code(), Some(110));
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
        let is_written_by_us = ["lock", "last_reserved_ip.0", "unfinished.tmp"].contains(&&*name);
        let may_go = is_reservation && Says::by(content, own) != Says::Others;
        !is_written_by_us && !may_go
    });
    all
}
