//! A cluster's pool, beside bare writes and beside whereabouts on the same engine. Each call is a
//! process with a connection.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use cluster::TimeLimit;
use etcd::{Client, Op, Settings, Txn};
use harness::{Namespace, kubernetes_programs};
use serde_json::{Value, json};

use crate::crowd::{crowd, inside};
use crate::plugin::{Plugin, timed};
use crate::samples::Samples;
use crate::table::{Table, figure};

/// Time limit of a call.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// The executable of whereabouts, beside the programs of a Kubernetes control plane.
const WHEREABOUTS: &str = "whereabouts-0.5.4";

/// Most processes at once that clean up.
const CLEANERS: usize = 4;

/// Numbers of rounds of single calls, of 20 callers, and of 1,000 callers.
const ROUNDS: [usize; 3] = [41, 5, 3];

/// Number of the addresses that a /20 gives: without network, broadcast and gateway.
const SMALL: u32 = 4_093;

/// Number of callers of a crowd.
const CROWD: usize = 1_000;

/// The first address of bare writes, 10.96.0.0.
const BARE: u32 = 0x0a60_0000;

/// An engine with its clients.
pub(crate) trait Engine: Sync {
    /// Names of our allocator, and of bare writes.
    fn names(&self) -> [&'static str; 2];

    /// Network namespace of the clients.
    fn clients(&self) -> Namespace;

    /// Defines a pool; returns our allocator for it, on this node. May be repeated.
    fn define(&self, pool: &str, definition: &Value, node: &str) -> Result<Plugin>;

    /// A bare write of what an ADD writes for this address.
    fn bare(&self, ip: Ipv4Addr) -> Command;

    /// whereabouts on this engine, if it is on this machine.
    fn whereabouts(&self) -> Option<&Plugin>;

    /// Settings for etcd: the engine, or the one behind it.
    fn etcd(&self) -> PathBuf;

    /// Keys and values in etcd of an address that another node has.
    fn stored(&self, pool: &str, ip: Ipv4Addr) -> Vec<(String, String)>;

    /// Processor time that the API server has used so far, in milliseconds.
    fn processor_time(&self) -> Option<f64>;
}

/// The table of an engine.
pub(crate) fn measure(engine: &dyn Engine) -> Result<Table> {
    let [ours, bare] = engine.names();
    let bare = format!("× {bare}");
    let header = ["milliseconds", ours, &bare, "whereabouts 0.5.4", "× ours"];
    let mut rows = Rows {
        engine,
        table: Table::new(header),
        calls: 0,
    };
    let [single, some, many] = ROUNDS;
    rows.turn_over()?;
    let large = [engine.define("large", &json!({"subnet": "10.92.0.0/16"}), "large")?];
    rows.add("one at a time", &large, 1, single)?;
    rows.add("20 callers", &large, 20, some)?;
    let pools = rows.small_pools("empty", 0, 0)?;
    rows.add("1,000 callers in a pool of 4,096", &pools, CROWD, many)?;
    let pools = rows.small_pools("filling", 48, SMALL - CROWD as u32)?;
    rows.add("1,000 callers take its last 1,000", &pools, CROWD, many)?;
    let pools = rows.small_pools("last", 96, SMALL - 1)?;
    rows.add("its last free address", &pools, 1, single)?;
    rows.reserve("large", [10, 92, 0, 2].into(), 60_000)?;
    rows.add("one at a time, 60,000 reserved", &large, 1, single)?;
    rows.reserve("others", [10, 94, 0, 0].into(), 40_000)?;
    rows.idle_dels(&large[0], single)?;
    Ok(rows.table)
}

/// The rows that are measured so far.
struct Rows<'a> {
    engine: &'a dyn Engine,
    table: Table,
    /// Number of ADDs and writes so far, each for another container or address.
    calls: usize,
}

impl Rows<'_> {
    /// As many pools of 4,096 addresses as there are rounds of a crowd, each with this number of
    /// reserved ones. `third` is the third byte of the first one's addresses.
    fn small_pools(&self, name: &str, third: usize, reserved: u32) -> Result<Vec<Plugin>> {
        let pool = |number| {
            let name = format!("{name}-{number}");
            let third = u8::try_from(third + 16 * number)?;
            self.reserve(&name, [10, 93, third, 2].into(), reserved)?;
            let definition = json!({"subnet": format!("10.93.{third}.0/20")});
            self.engine.define(&name, &definition, &name)
        };
        (0..ROUNDS[2]).map(pool).collect()
    }

    /// Reserves addresses for other nodes.
    fn reserve(&self, pool: &str, first: Ipv4Addr, count: u32) -> Result<()> {
        let settings = Settings::read(&self.engine.etcd())?;
        let stored: Vec<Op> = (0..count)
            .flat_map(|number| {
                self.engine
                    .stored(pool, Ipv4Addr::from(u32::from(first) + number))
            })
            .map(|(key, value)| Op::put(key, value))
            .collect();
        inside(&self.engine.clients(), || {
            let mut client = Client::new(settings, TimeLimit::new(TIMEOUT, None));
            for some in stored.chunks(100) {
                let puts = Txn {
                    then: some.to_vec(),
                    ..Txn::default()
                };
                client.txn(&puts)?;
            }
            Ok(())
        })
    }

    /// Measures rounds of this number of callers, each until the last one has ended. A crowd keeps
    /// its addresses, so each of its rounds has another pool.
    fn add(&mut self, name: &str, pools: &[Plugin], callers: usize, rounds: usize) -> Result<()> {
        eprintln!("{name} …");
        let mut times: [Samples; 3] = Default::default();
        for round in 0..rounds {
            let ours = &pools[round % pools.len()];
            let first = self.calls;
            self.calls += callers;
            let run = |plugin: &Plugin, command: &str, at_once: usize| {
                self.run(at_once, callers, |i| {
                    plugin.command(command, &format!("c-{}", first + i))
                })
            };
            let bare = |i| Ok(self.engine.bare(Ipv4Addr::from(BARE + (first + i) as u32)));
            times[0].push(run(ours, "ADD", callers)?.of_all()?);
            times[1].push(self.run(callers, callers, bare)?.of_all()?);
            if callers < CROWD {
                run(ours, "DEL", CLEANERS)?.of_all()?;
            }
            // Its twentieth caller waits for seconds, and its thousandth for ever.
            let is_bearable = callers == 1 || (callers < CROWD && round == 0);
            if let Some(theirs) = self.engine.whereabouts().filter(|_| is_bearable) {
                if let Ok(time) = run(theirs, "ADD", callers)?.of_all() {
                    times[2].push(time);
                }
                run(theirs, "DEL", CLEANERS)?;
            }
        }
        let [ours, bare, theirs] = times.each_ref().map(Samples::median);
        let cells = [
            figure(ours, 1),
            figure(ours / bare, 2),
            figure(theirs, 1),
            figure(theirs / ours, 1),
        ];
        self.table.row(name.to_owned(), cells);
        Ok(())
    }

    /// Measures ten nodes that take all of a pool of 1,000 at once, release it and take it again.
    fn turn_over(&mut self) -> Result<()> {
        let (engine, mut nodes) = (self.engine, Vec::new());
        let definition = json!({"subnet": "10.97.0.0/22", "rangeEnd": "10.97.3.233"});
        for i in 0..10 {
            nodes.push(engine.define("thousand", &definition, &format!("node-{i}"))?);
        }
        let bare = |i| Ok(engine.bare(Ipv4Addr::from(BARE - 1 - i as u32)));
        let bare = self.run(CROWD, CROWD, bare)?.of_all()?.as_secs_f64();
        for command in ["ADD", "DEL", "ADD"] {
            let call = |i: usize| nodes[i % 10].command(command, &format!("t-{i}"));
            let round = self.run(CROWD, CROWD, call)?;
            let (time, slowest) = (round.of_all()?.as_secs_f64(), round.slowest);
            let name = format!("1,000 {command}s of ten nodes, the slowest {slowest}");
            let [ours, ratio] = [figure(time * 1e3, 1), figure(time / bare, 2)];
            self.table.row(name, [ours, ratio, "–".into(), "–".into()]);
        }
        Ok(())
    }

    /// Measures DELs without `prevResult` of containers without addresses.
    fn idle_dels(&self, ours: &Plugin, rounds: usize) -> Result<()> {
        let mut times = Samples::default();
        let before = self.engine.processor_time();
        for _ in 0..rounds {
            times.push(self.run(1, 1, |_| ours.command("DEL", "none"))?.of_all()?);
        }
        let after = self.engine.processor_time();
        let time = figure(times.median(), 1);
        println!("\nDEL without prevResult, 100,000 of others: {time} ms");
        if let (Some(before), Some(after)) = (before, after) {
            let time = figure((after - before) / rounds as f64, 1);
            println!("the API server's processor time of it: {time} ms");
        }
        Ok(())
    }

    /// Runs the calls with these numbers by concurrent callers in the clients' network namespace.
    fn run(
        &self,
        callers: usize,
        calls: usize,
        call: impl Fn(usize) -> Result<Command> + Sync,
    ) -> Result<Round> {
        let [failed, slowest] = [0, 0].map(AtomicUsize::new);
        let said = tempfile::NamedTempFile::new()?;
        let run = |number| {
            let said = File::options().append(true).open(&said)?;
            let mut process = call(number)?;
            let (time, success) = timed(process.stdout(said.try_clone()?).stderr(said))?;
            slowest.fetch_max(time.as_millis() as usize, Ordering::Relaxed);
            if !success {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        Ok(Round {
            time: inside(&self.engine.clients(), || crowd(callers, calls, &run))?,
            failed: failed.into_inner(),
            slowest: slowest.into_inner(),
            said: fs::read_to_string(&said)?,
        })
    }
}

/// A round of calls.
struct Round {
    /// Until the last one has ended.
    time: Duration,
    failed: usize,
    /// Time of the slowest call, in milliseconds.
    slowest: usize,
    /// What all calls have said.
    said: String,
}

impl Round {
    /// The time, if all calls have succeeded.
    fn of_all(&self) -> Result<Duration> {
        let mut lines = self.said.lines();
        let why = lines.find(|line| line.contains("\"msg\"") || line.contains("rror"));
        let (failed, why) = (self.failed, why.unwrap_or_default());
        ensure!(failed == 0, "{failed} calls have failed: {why}");
        Ok(self.time)
    }
}

/// What an engine stores of an address that a pod of this node has.
pub(crate) fn holder(node: &str, pool: &str, container: &str) -> Value {
    json!({
        "node": node, "network": "bench", "containerID": container, "ifname": "eth0",
        "pool": pool, "since": "2020-01-01T00:00:00.000000000Z", "namespace": "bench",
        "pod": container,
    })
}

/// Our allocator, or whereabouts, in a pool, with its configuration in this folder.
pub(crate) fn plugin(executable: &Path, folder: &Path, pool: &str, ipam: &Value) -> Result<Plugin> {
    let config = json!({
        "cniVersion": "0.3.1", "name": "bench", "type": "macvlan", "ipam": ipam,
        "prevResult": {"cniVersion": "0.3.1", "pools": [{"name": pool}]},
    });
    let file = format!("{pool}-{}.json", ipam["node"].as_str().unwrap_or_default());
    Plugin::new(executable, &folder.join(file), &config)
}

/// whereabouts with these settings of an engine; `None` if it isn't on this machine.
pub(crate) fn whereabouts(folder: &Path, mut ipam: Value) -> Result<Option<Plugin>> {
    let executable = kubernetes_programs().map(|folder| folder.join(WHEREABOUTS));
    let Some(executable) = executable.filter(|path| path.exists()) else {
        println!("{WHEREABOUTS} is not there: it is left out");
        return Ok(None);
    };
    ipam["type"] = json!("whereabouts");
    ipam["range"] = json!("10.95.0.0/16");
    plugin(&executable, folder, "whereabouts", &ipam).map(Some)
}
