//! A proxy in front of an API server. A rule decides for each request whether it is forwarded, and
//! whether the client receives the answer.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ClientConfig, ServerConfig, ServerConnection, StreamOwned};

use super::KubernetesApi;
use crate::kubernetes::requests::{client_config, connect, read_to_end};

/// A request from the client.
#[derive(Clone, Debug)]
pub struct ProxiedRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
    /// The header lines.
    pub(crate) head: Vec<String>,
}

/// The proxy's reaction to a request.
#[derive(Clone, Debug)]
pub enum Fate {
    /// The request is forwarded and answered.
    Answered,
    /// The request is forwarded. The connection is closed without an answer.
    AnswerLost,
    /// It is handed on. The answer has this status instead, and no body.
    AnswerReplaced(u16),
    /// It is handed on. There is no answer, and the connection stays open.
    AnswerHeld,
    /// The request is not forwarded, and the connection is closed.
    RequestLost,
    /// The request is forwarded after this time, and answered.
    Late(Duration),
    /// The connection is closed. [`ApiProxy::deliver`] forwards the request later.
    HeldBack,
    /// The request is not forwarded. The answer is the last one to the same method and path.
    Old,
    /// The request is not forwarded. The answer has this status, these header lines, and this
    /// body.
    Refused(u16, Vec<String>, String),
}

type Rule = Box<dyn FnMut(&ProxiedRequest) -> Fate + Send>;
type ClientStream = StreamOwned<ServerConnection, TcpStream>;

/// The proxy, on a port of the loopback interface in the API server's network namespace. It ends
/// with the process.
pub struct ApiProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    rule: Mutex<Rule>,
    requests: Mutex<Vec<ProxiedRequest>>,
    /// Requests that are held back.
    held_back: Mutex<Vec<ProxiedRequest>>,
    /// The last answer to each request, by method and path.
    answers: Mutex<HashMap<(String, String), Vec<u8>>>,
    /// Connections that are never answered.
    held: Mutex<Vec<ClientStream>>,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl fmt::Debug for ApiProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiProxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl ApiProxy {
    /// Starts a proxy that forwards all requests.
    pub fn start(api: &KubernetesApi) -> Self {
        let shared = Arc::new(Shared {
            rule: Mutex::new(Box::new(|_| Fate::Answered)),
            requests: Mutex::default(),
            held_back: Mutex::default(),
            answers: Mutex::default(),
            held: Mutex::default(),
            server: api.certificate.server_config(),
            client: client_config(&api.ca()).unwrap(),
        });
        let (sender, receiver) = channel();
        let (namespace, of_thread) = (api.namespace(), Arc::clone(&shared));
        thread::spawn(move || {
            namespace.enter();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            for stream in listener.incoming() {
                let shared = Arc::clone(&of_thread);
                // A closed connection is no failure.
                thread::spawn(move || shared.serve(stream.unwrap()));
            }
        });
        let address = receiver.recv().unwrap();
        Self { address, shared }
    }

    /// Its URL, for [`KubernetesApi::kubeconfig_for_server`].
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Sets the rule for further requests.
    pub fn decide(&self, rule: impl FnMut(&ProxiedRequest) -> Fate + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// The requests since the last call of this function.
    pub fn take_requests(&self) -> Vec<ProxiedRequest> {
        std::mem::take(&mut self.shared.requests.lock().unwrap())
    }

    /// A kubeconfig for the same user through the proxy.
    pub fn kubeconfig_like(&self, api: &KubernetesApi, direct: &Path) -> PathBuf {
        let user = direct.file_stem().unwrap_or_default().display();
        api.kubeconfig_for_server(direct, &format!("proxied-{user}"), &self.url())
    }

    /// Forwards the requests with [`Fate::HeldBack`]; returns their answers. The calling thread
    /// must be in the API server's network namespace.
    pub fn deliver(&self) -> Vec<String> {
        let held_back = std::mem::take(&mut *self.shared.held_back.lock().unwrap());
        let answers = held_back
            .iter()
            .map(|request| self.shared.hand_on(request).unwrap());
        answers
            .map(|answer| String::from_utf8_lossy(&answer).into_owned())
            .collect()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let connection = ServerConnection::new(Arc::clone(&self.server)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let request = read_request(&mut stream)?;
        self.requests.lock().unwrap().push(request.clone());
        let fate = (self.rule.lock().unwrap())(&request);
        let kind = (request.method.clone(), request.path.clone());
        let answer = match fate {
            Fate::Answered => {
                let answer = self.hand_on(&request)?;
                self.answers.lock().unwrap().insert(kind, answer.clone());
                answer
            }
            Fate::Old => {
                let old = self.answers.lock().unwrap().get(&kind).cloned();
                old.unwrap_or_default()
            }
            Fate::HeldBack => {
                self.held_back.lock().unwrap().push(request);
                return stream.sock.shutdown(Shutdown::Both);
            }
            Fate::Late(time) => {
                thread::sleep(time);
                self.hand_on(&request)?
            }
            Fate::AnswerLost => {
                self.hand_on(&request)?;
                return stream.sock.shutdown(Shutdown::Both);
            }
            Fate::AnswerReplaced(status) => {
                self.hand_on(&request)?;
                answer(status, &[], "")
            }
            Fate::AnswerHeld => {
                self.hand_on(&request)?;
                self.held.lock().unwrap().push(stream);
                return Ok(());
            }
            Fate::RequestLost => return stream.sock.shutdown(Shutdown::Both),
            Fate::Refused(status, head, body) => answer(status, &head, &body),
        };
        stream.write_all(&answer)?;
        stream.conn.send_close_notify();
        stream.flush()
    }

    /// The answer of the API server with headers and body, on a separate connection.
    fn hand_on(&self, request: &ProxiedRequest) -> std::io::Result<Vec<u8>> {
        let mut stream = connect(Arc::clone(&self.client))?;
        let kept = request.head.iter();
        let kept = kept.filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
        let mut head: String = kept.flat_map(|line| [line, "\r\n"]).collect();
        head += "Connection: close\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        stream.write_all(&request.body)?;
        read_to_end(&mut stream)
    }
}

/// Reads a request with its body.
pub(crate) fn read_request(stream: &mut ClientStream) -> std::io::Result<ProxiedRequest> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let mut words = head
        .first()
        .map(String::as_str)
        .unwrap_or_default()
        .split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    Ok(ProxiedRequest {
        method: word(),
        path: word(),
        body,
        head,
    })
}

/// The bytes of an answer with these header lines and this body.
pub(crate) fn answer(status: u16, head: &[String], body: &str) -> Vec<u8> {
    let head: String = head.iter().flat_map(|line| [line, "\r\n"]).collect();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n{head}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
