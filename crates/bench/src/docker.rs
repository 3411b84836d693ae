//! The daemon for Docker: calls for addresses, beside a call that does nothing.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{DOCKER_DAEMON, docker_request};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::build::Flavour;

use crate::crowd::crowd;
use crate::folders::{folder_in, in_memory};
use crate::samples::Samples;
use crate::table::{Table, figure, grouped};

/// Numbers of addresses that Docker has during a measurement.
const HELD: [usize; 2] = [0, 60_000];

/// Calls of each kind.
const ROUNDS: usize = 1_000;

/// Number of concurrent callers that request the addresses before a measurement.
const CALLERS: usize = 16;

/// Longest wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(10);

/// The table of single calls.
pub(crate) fn measure() -> Result<Table> {
    let daemon = Daemon::start()?;
    let pool = json!({
        "AddressSpace": "ipam-delegated-local", "Pool": "10.96.0.0/12", "Options": {}});
    let pool = daemon.call("/IpamDriver.RequestPool", &pool)?["PoolID"].take();
    let body = |ip: &str| json!({"PoolID": pool, "Address": ip, "Options": {}});
    let request = || daemon.call("/IpamDriver.RequestAddress", &body(""));
    let mut table = Table::new([
        "addresses",
        "bare call, ms",
        "RequestAddress, ms",
        "more",
        "ReleaseAddress, ms",
        "more",
    ]);
    let mut held = 0;
    for level in HELD {
        crowd(CALLERS, level - held, &|_| request().map(drop))?;
        held = level;
        let mut times: [Samples; 3] = Default::default();
        for _ in 0..ROUNDS {
            // A call that Docker makes once, with the body of a request for an address.
            times[0].time(|| daemon.call("/Plugin.Activate", &body("")))?;
            let given = times[1].time(request)?;
            let address = given["Address"].as_str().context("no address")?;
            let (ip, _) = address.split_once('/').context("no prefix")?;
            times[2].time(|| daemon.call("/IpamDriver.ReleaseAddress", &body(ip)))?;
        }
        let [bare, request, release] = times.each_ref().map(Samples::median);
        let figures = [bare, request, request - bare, release, release - bare];
        table.row(grouped(level), figures.map(|value| figure(value, 2)));
    }
    Ok(table)
}

/// The daemon, as it is installed, with its state in memory.
struct Daemon {
    process: Child,
    folder: TempDir,
}

/// Options of the daemon, each for a file or a folder.
const OPTIONS: &str = "socket docker-socket state-dir data-dir conf-dir cni-path";

impl Daemon {
    fn start() -> Result<Self> {
        let built = Flavour::Normal.build_static(&[DOCKER_DAEMON])?;
        let folder = folder_in(&in_memory())?;
        fs::create_dir(folder.path().join("conf-dir"))?;
        let option = |name| format!("--{name}={}", folder.path().join(name).display());
        let process = Command::new(built.join(DOCKER_DAEMON))
            .args(OPTIONS.split(' ').map(option))
            .stderr(Stdio::null())
            .spawn()?;
        let daemon = Self { process, folder };
        let started = Instant::now();
        while daemon.connect().is_err() {
            ensure!(started.elapsed() < PATIENCE, "the daemon doesn't answer");
            sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.folder.path().join("socket"))
    }

    /// A call over a new connection.
    fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let mut stream = self.connect()?;
        stream.write_all(docker_request(path, &body.to_string()).as_bytes())?;
        let answer = harness::read_docker_answer(&stream)?;
        ensure!(answer.body.get("Err").is_none(), "{path}: {answer:?}");
        Ok(answer.body)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
