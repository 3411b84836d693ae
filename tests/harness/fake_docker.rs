//! A server for the part of Docker's API that the daemon uses. The test defines the networks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::Sandbox;

/// A fake Docker. Dropping it stops it.
pub struct FakeDocker {
    socket: PathBuf,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeDocker {
    /// Starts a server with these networks by ID, each as `GET /networks/ID` returns it.
    pub fn start(sandbox: &Sandbox, networks: BTreeMap<String, Value>) -> Self {
        let socket = sandbox.docker_api();
        let listener = UnixListener::bind(&socket).unwrap();
        let has_ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&has_ended);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // The daemon may have been killed.
                let _ = stream.and_then(|stream| answer(&stream, &networks));
            }
        });
        Self {
            socket,
            has_ended,
            thread: Some(thread),
        }
    }
}

impl Drop for FakeDocker {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        let _ = UnixStream::connect(&self.socket);
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_file(&self.socket);
    }
}

/// Answers one request.
fn answer(mut stream: &UnixStream, networks: &BTreeMap<String, Value>) -> io::Result<()> {
    let head: Vec<String> = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let line = head.first().map(String::as_str).unwrap_or_default();
    let path = line
        .strip_prefix("GET ")
        .and_then(|line| line.split(' ').next());
    let body = match path {
        Some("/networks") => {
            let listed = networks.keys().map(|id| json!({"Id": id}));
            Some(listed.collect())
        }
        // Docker has no containers in networks that it doesn't list.
        Some("/containers/json") => Some(json!([])),
        Some(path) => {
            let id = path.strip_prefix("/networks/").unwrap_or_default();
            networks.get(id).cloned()
        }
        None => None,
    };
    let status = if body.is_some() { 200 } else { 404 };
    let body = body.unwrap_or_default().to_string();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
