//! Starts and ends faults of the API server and of its etcd.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::KubernetesApi;
use crate::kubernetes::control_plane::ETCD as ETCD_URL;

const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd36";

/// A state of etcd.
pub struct Snapshot(String);

impl KubernetesApi {
    /// Kills the API server. Its connections are closed, new ones refused.
    pub fn stop_api_server(&mut self) {
        self.control_plane.kill(API_SERVER);
    }

    /// Starts the API server again, and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it doesn't become ready.
    pub fn start_api_server(&mut self) {
        self.control_plane.start_api_server();
        self.control_plane.wait_until_ready();
    }

    /// Stops the API server with SIGSTOP: it accepts connections and doesn't answer.
    pub fn pause_api_server(&self) {
        self.control_plane.signal(API_SERVER, "STOP");
    }

    /// Continues the API server.
    pub fn continue_api_server(&self) {
        self.control_plane.signal(API_SERVER, "CONT");
    }

    /// Kills etcd: the API server runs, and its connections to etcd are closed.
    pub fn stop_etcd(&mut self) {
        self.control_plane.kill(ETCD);
    }

    /// Starts etcd again, with its data, and waits until the API server is ready.
    ///
    /// # Panics
    ///
    /// If it doesn't become ready.
    pub fn start_etcd(&mut self) {
        self.control_plane.start_etcd();
        self.control_plane.wait_until_ready();
    }

    /// Stops etcd with SIGSTOP: the API server runs, and can't read or write.
    pub fn pause_etcd(&self) {
        self.control_plane.signal(ETCD, "STOP");
    }

    /// Continues etcd.
    pub fn continue_etcd(&self) {
        self.control_plane.signal(ETCD, "CONT");
    }

    /// Saves the state of etcd, for [`Self::restore`]. Its files are copied while it is paused: they
    /// are those that a killed etcd would leave.
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshots += 1;
        let folder = format!("/run/snapshot-{}", self.snapshots);
        self.pause_etcd();
        self.control_plane
            .node()
            .sh(&format!("cp -a /run/etcd {folder}"));
        self.continue_etcd();
        Snapshot(folder)
    }

    /// Sets etcd back to a snapshot. Revisions continue from the snapshot's.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        let folder = &snapshot.0;
        self.control_plane.kill(API_SERVER);
        self.control_plane.kill(ETCD);
        self.control_plane
            .node()
            .sh(&format!("rm -rf /run/etcd; cp -a {folder} /run/etcd"));
        self.control_plane.start_etcd();
        self.start_api_server();
    }

    /// Increases etcd's revision by more than the API server's own writes after a start. A node
    /// that later sees a lower revision then knows that etcd was restored. The calling thread must
    /// be in the network namespace.
    ///
    /// # Panics
    ///
    /// If etcd doesn't answer.
    pub fn advance(&self) {
        const WRITES: usize = 3000;
        let body = r#"{"key": "YWR2YW5jZQ==", "value": ""}"#;
        let request = format!(
            "POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let address = ETCD_URL.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        for _ in 0..WRITES {
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            // An answer ends with the closing braces of its header and its object.
            while !answer.contains("}}") {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).unwrap();
                assert!(read > 0, "{answer}");
                answer += str::from_utf8(&part[..read]).unwrap();
            }
        }
    }
}
