//! `cargo xtask bench docker`: Docker's calls for addresses.

mod connects;
mod echo;

use std::env;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use harness::{DOCKERD, DockerDaemon, Sandbox, docker_request, is_root};
use serde_json::{Value, json};

use super::samples::Samples;
use super::table::{Table, figure};
use xtask::build::{BUILT_PLUGINS, Flavour, build_tools};
use xtask::cargo;

/// Numbers of addresses that Docker has during a measurement.
const LEVELS: [usize; 4] = [0, 1_000, 16_000, 60_000];

/// Calls of each kind, in sequence.
const ROUNDS: usize = 500;

/// Number of concurrent calls, and the number of calls of each kind.
const AT_ONCE: usize = 64;
const CALLS: usize = 4_000;

/// The promises: the longest time of a call above the echo, in milliseconds; its longest time with
/// most addresses, relative to none; and the fewest requests per second.
const MOST_ABOVE: f64 = 1.0;
const FLAT: f64 = 1.5;
const FEWEST: f64 = 2_000.0;

pub(crate) fn run(data: &Path) -> Result<()> {
    // The harness takes the executables from the folder in this variable.
    if env::var_os(BUILT_PLUGINS).is_none() {
        println!("Building …");
        let built = Flavour::Normal.build("release")?;
        build_tools("release")?;
        let mut again = Command::new(env::current_exe()?);
        again
            .args(env::args_os().skip(1))
            .env(BUILT_PLUGINS, built.separate)
            // The folder of the sandboxes.
            .env("TMPDIR", data);
        return cargo::run(&mut again);
    }
    let sandbox = Sandbox::default();
    let echo = sandbox.root().join("echo.sock");
    echo::start(&echo)?;
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.96.0.0/12", &json!({}));
    let client = Client {
        echo,
        daemon: sandbox.docker_socket(),
        pool,
    };
    let mut single = Table::new([
        "addresses",
        "bare HTTP, ms",
        "RequestAddress, ms",
        "ReleaseAddress, ms",
        "99 % of the requests, ms",
    ]);
    let mut many = Table::new([
        "addresses",
        "bare HTTP, calls/s",
        "RequestAddress, calls/s",
        "ReleaseAddress, calls/s",
    ]);
    let mut held = 0;
    let (mut above, mut medians, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for level in LEVELS {
        client.in_parallel(level - held, |client| client.request().map(drop))?;
        held = level;
        let [echo, request, release] = client.one_by_one()?;
        above.extend([&request, &release].map(|samples| samples.median() - echo.median()));
        medians.push(request.median());
        let times = [
            echo.median(),
            request.median(),
            release.median(),
            request.percentile(99),
        ];
        single.row(level.to_string(), times.map(|time| figure(time, 2)));
        let speeds = client.at_once()?;
        rates.push(speeds[1]);
        many.row(level.to_string(), speeds.map(|speed| figure(speed, 0)));
    }
    println!(
        "\nOne call after the other, {ROUNDS} of each kind, medians; folders in {}:\n\n{single}",
        data.display()
    );
    println!("{AT_ONCE} calls at once, {CALLS} of each kind:\n\n{many}");
    let most_above = above.into_iter().fold(0.0, f64::max);
    let growth = medians[LEVELS.len() - 1] / medians[0];
    let fewest = rates.into_iter().fold(f64::INFINITY, f64::min);
    verdict(
        "ms above bare HTTP at most",
        most_above,
        most_above <= MOST_ABOVE,
        MOST_ABOVE,
    );
    verdict(
        "times as long with 60,000 addresses as with none",
        growth,
        growth <= FLAT,
        FLAT,
    );
    verdict(
        "requests a second at least",
        fewest,
        fewest >= FEWEST,
        FEWEST,
    );
    drop(daemon);
    if !is_root() || !Path::new(DOCKERD).exists() {
        println!("`docker network connect` is left out: it needs root, and Debian's docker.io.");
        return Ok(());
    }
    connects::run()
}

fn verdict(what: &str, figure: f64, is_kept: bool, promise: f64) {
    let verdict = if is_kept { "kept" } else { "NOT kept" };
    println!("{figure:.2} {what}; promised: {promise}: {verdict}");
}

/// Calls the daemon, and the echo.
struct Client {
    echo: PathBuf,
    daemon: PathBuf,
    pool: String,
}

impl Client {
    fn echo(&self) -> Result<Value> {
        // A body of the same length as a request for an address.
        call(&self.echo, "/Echo", &request(&self.pool))
    }

    /// Requests an address; returns it.
    fn request(&self) -> Result<String> {
        let given = call(
            &self.daemon,
            "/IpamDriver.RequestAddress",
            &request(&self.pool),
        )?;
        let address = given["Address"].as_str().context("no address")?;
        let (ip, _) = address.split_once('/').context("no prefix")?;
        Ok(ip.to_owned())
    }

    fn release(&self, ip: &str) -> Result<Value> {
        let body = json!({"PoolID": self.pool, "Address": ip});
        call(&self.daemon, "/IpamDriver.ReleaseAddress", &body)
    }

    /// Times of the echo, of requests and of releases.
    fn one_by_one(&self) -> Result<[Samples; 3]> {
        let mut samples: [Samples; 3] = Default::default();
        for _ in 0..ROUNDS {
            timed(&mut samples[0], || self.echo())?;
            let ip = timed(&mut samples[1], || self.request())?;
            timed(&mut samples[2], || self.release(&ip))?;
        }
        Ok(samples)
    }

    /// Calls of each kind per second, with [`AT_ONCE`] concurrent calls.
    fn at_once(&self) -> Result<[f64; 3]> {
        let rate = |started: Instant| CALLS as f64 / started.elapsed().as_secs_f64();
        let started = Instant::now();
        self.in_parallel(CALLS, |client| client.echo().map(drop))?;
        let echo = rate(started);
        let given = Mutex::new(Vec::with_capacity(CALLS));
        let started = Instant::now();
        self.in_parallel(CALLS, |client| {
            let ip = client.request()?;
            given.lock().expect("no thread has failed").push(ip);
            Ok(())
        })?;
        let request = rate(started);
        let started = Instant::now();
        self.in_parallel(CALLS, |client| {
            let ip = given.lock().expect("no thread has failed").pop();
            client.release(&ip.context("no address is left")?).map(drop)
        })?;
        Ok([echo, request, rate(started)])
    }

    /// Runs a task this number of times, [`AT_ONCE`] concurrently.
    fn in_parallel(&self, times: usize, task: impl Fn(&Self) -> Result<()> + Sync) -> Result<()> {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let run = || -> Result<()> {
                while next.fetch_add(1, Ordering::Relaxed) < times {
                    task(self)?;
                }
                Ok(())
            };
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| bail!("a thread has failed"))
            })
        })
    }
}

fn timed<T>(samples: &mut Samples, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    let answer = call()?;
    samples.push(started.elapsed());
    Ok(answer)
}

/// A request for an address of a new endpoint.
fn request(pool: &str) -> Value {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mac = format!(
        "02:42:00:{:02x}:{:02x}:{:02x}",
        number >> 16 & 255,
        number >> 8 & 255,
        number & 255
    );
    json!({"PoolID": pool, "Address": "", "Options": {"com.docker.network.endpoint.macaddress": mac}})
}

/// A call over a socket.
fn call(socket: &Path, path: &str, body: &Value) -> Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(docker_request(path, &body.to_string()).as_bytes())?;
    let answer = harness::read_docker_answer(&stream)?;
    ensure!(answer.body.get("Err").is_none(), "{path}: {answer:?}");
    Ok(answer.body)
}
