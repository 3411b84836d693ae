//! A server that answers each request with the next reply of a script.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The server's reaction to a request.
pub(crate) enum Reply {
    /// Answers with this status, these header lines, and this body.
    Answer(u16, &'static str, Vec<u8>),
    /// Answers with these bytes, and closes the connection.
    Raw(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Answers with an endless body.
    Endless,
    /// Answers without TLS, on a connection with TLS.
    WithoutTls,
}

impl Reply {
    /// An answer with an object.
    pub(crate) fn object(status: u16, object: &Value) -> Self {
        Self::Answer(status, "", object.to_string().into_bytes())
    }

    /// An answer with a `Status` about an object.
    pub(crate) fn status(code: u16, reason: &str, name: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": format!("said {reason}"),
            "details": {"name": name, "group": "ipam-delegated.io"},
        });
        Self::object(code, &status)
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Method, target and version.
    pub(crate) line: String,
    /// The header lines, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body, if it is JSON.
    pub(crate) body: Value,
}

impl Received {
    /// A header's value; empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// The server. Dropping it stops it.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    listening: Option<JoinHandle<()>>,
}

struct State {
    replies: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl FakeServer {
    /// A server without TLS.
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_with(replies, None)
    }

    /// A server with TLS.
    pub(crate) fn start_with(
        replies: impl IntoIterator<Item = Reply>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            replies: Mutex::new(replies.into_iter().collect()),
            received: Mutex::default(),
            connections: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        let listening = thread::spawn(move || {
            let mut serving = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                if shared.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (kept, ended) = (stream.try_clone(), stream.try_clone());
                shared.connections.lock().unwrap().push(kept.unwrap());
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                serving.push(thread::spawn(move || {
                    match tls {
                        None => state.serve(stream),
                        Some(tls) => {
                            let connection = ServerConnection::new(tls).unwrap();
                            state.serve(StreamOwned::new(connection, stream));
                        }
                    }
                    let _ = ended.unwrap().shutdown(Shutdown::Both);
                }));
            }
            for thread in serving {
                thread.join().unwrap();
            }
        });
        Self {
            address,
            state,
            listening: Some(listening),
        }
    }

    /// URL of a server without TLS.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.lock().unwrap().len()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        for connection in self.state.connections.lock().unwrap().iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Wakes up the listening thread.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl State {
    /// Serves a connection to its end.
    fn serve(&self, stream: impl Read + Write) {
        let mut stream = BufReader::new(stream);
        while let Some(received) = read(&mut stream) {
            let is_tunnel = received.line.starts_with("CONNECT ");
            self.received.lock().unwrap().push(received);
            if is_tunnel {
                let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                continue;
            }
            let reply = self.replies.lock().unwrap().pop_front();
            let to = stream.get_mut();
            let written = match reply {
                Some(Reply::Answer(status, headers, body)) => {
                    let length = body.len();
                    let head =
                        format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n");
                    to.write_all(&[head.as_bytes(), &body].concat())
                }
                Some(Reply::Raw(answer)) => {
                    let _ = to.write_all(&answer).and_then(|()| to.flush());
                    return;
                }
                Some(Reply::Endless) => endless(to),
                Some(Reply::WithoutTls) => {
                    let connections = self.connections.lock().unwrap();
                    let mut tcp = connections.last().unwrap();
                    tcp.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                }
                Some(Reply::Close) | None => return,
            };
            if written.and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    }
}

/// Writes until the client closes the connection.
fn endless(to: &mut impl Write) -> std::io::Result<()> {
    to.write_all(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let chunk = [b"100000\r\n", " ".repeat(1 << 20).as_bytes(), b"\r\n"].concat();
    loop {
        to.write_all(&chunk)?;
    }
}

/// Reads a request; `None` at the end of the connection.
fn read(from: &mut impl BufRead) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut received = Received {
        line: lines[0].clone(),
        headers,
        body: Value::Null,
    };
    let length = received.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    received.body = serde_json::from_slice(&body).unwrap_or_default();
    Some(received)
}
