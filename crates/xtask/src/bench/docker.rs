//! `cargo xtask bench docker`: Docker's calls for addresses.

use std::env;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use harness::{DOCKERD, DockerDaemon, Dockerd, Sandbox, docker_request, is_root};
use serde_json::{Value, json};

use super::samples::Samples;
use super::table::{Table, figure};
use crate::build::{BUILT_PLUGINS, Flavour};
use crate::cargo;

/// Addresses that Docker has while it asks for another.
const LEVELS: [usize; 4] = [0, 1_000, 16_000, 60_000];

/// Calls of each kind, one after the other.
const ROUNDS: usize = 500;

/// Calls at once, and how many of each kind are made so.
const AT_ONCE: usize = 64;
const CALLS: usize = 8_000;

/// Connects and disconnects of a container.
const CONNECTS: usize = 30;

/// A call that only the HTTP stack answers.
const ECHO: &str = "/Plugin.Activate";

pub(crate) fn run(data: &Path) -> Result<()> {
    // The harness takes executables from the folder that this variable names.
    if env::var_os(BUILT_PLUGINS).is_none() {
        println!("Building …");
        let built = Flavour::Normal.build("release")?;
        Flavour::Normal.build_tools("release")?;
        let mut again = Command::new(env::current_exe()?);
        again
            .args(env::args_os().skip(1))
            .env(BUILT_PLUGINS, built.separate)
            // Where the sandboxes are.
            .env("TMPDIR", data);
        return cargo::run(&mut again);
    }
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.96.0.0/12", &json!({}));
    let mut single = Table::new([
        "addresses",
        "HTTP alone, ms",
        "RequestAddress, ms",
        "ReleaseAddress, ms",
        "99 % of the requests, ms",
    ]);
    let mut many = Table::new(["addresses", "HTTP alone, calls/s", "both, calls/s"]);
    let mut held = 0;
    for level in LEVELS {
        fill(&sandbox, &pool, level - held)?;
        held = level;
        let [echo, request, release] = one_by_one(&daemon, &pool)?;
        single.row(
            level.to_string(),
            [
                echo.median(),
                request.median(),
                release.median(),
                request.percentile(99),
            ]
            .map(|it| figure(it, 2)),
        );
        many.row(
            level.to_string(),
            [at_once(&sandbox, None)?, at_once(&sandbox, Some(&pool))?].map(|it| figure(it, 0)),
        );
    }
    println!("\nOne call after the other, {ROUNDS} of each kind, medians:\n\n{single}");
    println!("{AT_ONCE} calls at once, {CALLS} of them:\n\n{many}");
    drop(daemon);
    if !is_root() || !Path::new(DOCKERD).exists() {
        println!("`docker network connect` is left out: it needs root, and Debian's docker.io.");
        return Ok(());
    }
    connects()
}

/// An address for a new endpoint.
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

fn one_by_one(daemon: &DockerDaemon, pool: &str) -> Result<[Samples; 3]> {
    let mut samples: [Samples; 3] = Default::default();
    let mut timed = |kind: usize, path: &str, body: &str| -> Result<Value> {
        let started = Instant::now();
        let answer = daemon.try_call(path, body)?;
        samples[kind].push(started.elapsed());
        ensure!(answer.body.get("Err").is_none(), "{path}: {answer:?}");
        Ok(answer.body)
    };
    for _ in 0..ROUNDS {
        timed(0, ECHO, "")?;
        let given = timed(1, "/IpamDriver.RequestAddress", &request(pool).to_string())?;
        timed(
            2,
            "/IpamDriver.ReleaseAddress",
            &release(pool, &given)?.to_string(),
        )?;
    }
    Ok(samples)
}

fn release(pool: &str, given: &Value) -> Result<Value> {
    let address = given["Address"].as_str().context("no address")?;
    let (ip, _) = address.split_once('/').context("no prefix")?;
    Ok(json!({"PoolID": pool, "Address": ip}))
}

/// A call over the socket.
fn call(sandbox: &Sandbox, path: &str, body: &Value) -> Result<Value> {
    let mut stream = UnixStream::connect(sandbox.docker_socket())?;
    stream.write_all(docker_request(path, &body.to_string()).as_bytes())?;
    let answer = harness::read_docker_answer(&stream)?;
    ensure!(answer.body.get("Err").is_none(), "{path}: {answer:?}");
    Ok(answer.body)
}

/// Runs a task so many times, [`AT_ONCE`] at once.
fn in_parallel(times: usize, task: impl Fn() -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let run = || -> Result<()> {
            while next.fetch_add(1, Ordering::Relaxed) < times {
                task()?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        threads
            .into_iter()
            .try_for_each(|it| it.join().unwrap_or_else(|_| bail!("a thread has failed")))
    })
}

fn fill(sandbox: &Sandbox, pool: &str, count: usize) -> Result<()> {
    in_parallel(count, || {
        call(sandbox, "/IpamDriver.RequestAddress", &request(pool)).map(drop)
    })
}

/// Calls a second: of the echo, or of requests and releases of addresses.
fn at_once(sandbox: &Sandbox, pool: Option<&str>) -> Result<f64> {
    let started = Instant::now();
    match pool {
        None => in_parallel(CALLS, || call(sandbox, ECHO, &json!({})).map(drop))?,
        Some(pool) => in_parallel(CALLS / 2, || {
            let given = call(sandbox, "/IpamDriver.RequestAddress", &request(pool))?;
            call(
                sandbox,
                "/IpamDriver.ReleaseAddress",
                &release(pool, &given)?,
            )
            .map(drop)
        })?,
    }
    Ok(CALLS as f64 / started.elapsed().as_secs_f64())
}

/// `docker network connect` and `disconnect`, with Docker's own allocator and with ours.
fn connects() -> Result<()> {
    let Some(docker) = Dockerd::start("bench docker", &[]) else {
        return Ok(());
    };
    docker.ok(&["network", "create", "--subnet=10.88.0.0/16", "dockers"]);
    docker.ok(&[
        "network",
        "create",
        "--ipam-driver=ipam-delegated",
        "--subnet=10.89.0.0/16",
        "ours",
    ]);
    docker.run("none", "connected", &[]);
    docker.ok(&["network", "disconnect", "none", "connected"]);
    let mut samples: [Samples; 4] = Default::default();
    for _ in 0..CONNECTS {
        for (i, network) in ["dockers", "ours"].into_iter().enumerate() {
            for (j, what) in ["connect", "disconnect"].into_iter().enumerate() {
                let started = Instant::now();
                dockerd_call(&docker, &format!("/networks/{network}/{what}"))?;
                samples[2 * i + j].push(started.elapsed());
            }
        }
    }
    let mut table = Table::new(["medians, ms", "connect", "disconnect"]);
    let [a, b, c, d] = samples.map(|it| figure(it.median(), 1));
    table.row("Docker's own allocator".to_owned(), [a, b]);
    table.row("ours".to_owned(), [c, d]);
    println!("`docker network connect` on bridges, in turn, {CONNECTS} times each:\n\n{table}");
    Ok(())
}

fn dockerd_call(docker: &Dockerd, path: &str) -> Result<()> {
    let mut stream = UnixStream::connect(docker.socket())?;
    let body = json!({"Container": "connected", "Force": true}).to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .map_err(io::Error::other)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    Ok(())
}
