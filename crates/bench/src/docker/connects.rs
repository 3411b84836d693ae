//! `docker network connect` and `disconnect`, with Docker's own drivers and with ours.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Result, ensure};
use harness::Dockerd;
use serde_json::json;

use crate::samples::Samples;
use crate::table::{Table, figure};

/// Number of connects and disconnects of a container.
const CONNECTS: usize = 30;

/// The networks, each with the options of `docker network create`.
const NETWORKS: [(&str, &[&str]); 3] = [
    ("Docker's own drivers", &["--subnet=10.88.0.0/16"]),
    (
        "Docker's bridge, our addresses",
        &["--ipam-driver=ipam-delegated", "--subnet=10.89.0.0/16"],
    ),
    (
        "our network driver",
        &[
            "--driver=ipam-delegated",
            "--ipam-driver=null",
            "--opt=conflist=web",
        ],
    ),
];

/// Prints the table of the three networks; nothing if dockerd can't run here.
pub(super) fn run() -> Result<()> {
    let Some(docker) = Dockerd::start("bench docker", &[]) else {
        return Ok(());
    };
    write_conflist(&docker)?;
    for (i, (_, options)) in NETWORKS.iter().enumerate() {
        let name = format!("net{i}");
        docker.ok(&[&["network", "create"], *options, &[&name]].concat());
    }
    docker.run("none", "connected", &[]);
    docker.ok(&["network", "disconnect", "none", "connected"]);
    let mut samples: [[Samples; 2]; 3] = Default::default();
    for _ in 0..CONNECTS {
        for (i, of_network) in samples.iter_mut().enumerate() {
            for (what, times) in ["connect", "disconnect"].into_iter().zip(of_network) {
                let started = Instant::now();
                call(&docker, &format!("/networks/net{i}/{what}"))?;
                times.push(started.elapsed());
            }
        }
    }
    let mut table = Table::new(["medians, ms", "connect", "disconnect"]);
    for ((name, _), times) in NETWORKS.iter().zip(samples) {
        table.row(
            (*name).to_owned(),
            times.map(|samples| figure(samples.median(), 1)),
        );
    }
    println!("`docker network connect`, in turn, {CONNECTS} times each:\n\n{table}");
    Ok(())
}

fn write_conflist(docker: &Dockerd) -> Result<()> {
    let sandbox = &docker.sandbox;
    let ipam = json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
        "ranges": [[{"subnet": "10.90.0.0/16"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": sandbox.data_dir(),
        "stateDir": sandbox.state_dir(),
        "cacheDir": sandbox.cache_dir(),
    });
    let bridge = json!({"type": "bridge", "bridge": "web0", "isGateway": true, "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "web", "plugins": [bridge]});
    Ok(fs::write(
        sandbox.conf_dir().join("web.conflist"),
        list.to_string(),
    )?)
}

fn call(docker: &Dockerd, path: &str) -> Result<()> {
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
