//! A server for the part of the Kubernetes API that the reader of a Node's `podCIDRs` uses.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConnection, StreamOwned};

use crate::Authority;
use crate::kubernetes::{answer, read_request};

/// The server's reaction to a request.
#[derive(Clone, Debug)]
pub enum ApiAnswer {
    /// Answers with this status and body.
    Says(u16, String),
    /// Reads the request, and doesn't answer.
    Nothing,
    /// Closes the connection without an answer.
    Closes,
}

/// The server, on a port of the loopback interface.
pub struct ApiServer {
    address: SocketAddr,
    account: PathBuf,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    answer: ApiAnswer,
    /// The header lines of each request.
    requests: Vec<Vec<String>>,
    /// Connections that are never answered.
    held: Vec<Stream>,
}

type Stream = StreamOwned<ServerConnection, TcpStream>;

impl ApiServer {
    /// Starts a server with a certificate of its own authority. Writes the files of a service
    /// account with this token into `folder`.
    pub fn start(folder: &Path, token: &str) -> Self {
        let authority = Authority::new(&folder.join("authority"));
        let files = authority.sign("api-server", &["127.0.0.1"]);
        let account = folder.join("account");
        std::fs::create_dir_all(&account).unwrap();
        std::fs::copy(authority.ca(), account.join("ca.crt")).unwrap();
        std::fs::write(account.join("token"), token).unwrap();

        let config = files.server_config();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            answer: ApiAnswer::Closes,
            requests: Vec::new(),
            held: Vec::new(),
        }));
        let of_thread = Arc::clone(&shared);
        // The thread ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                // A client that doesn't trust the certificate closes the connection.
                let _ = serve(StreamOwned::new(connection, stream.unwrap()), &of_thread);
            }
        });
        Self {
            address,
            account,
            shared,
        }
    }

    /// Sets the answer to all further requests.
    pub fn answer(&self, answer: ApiAnswer) {
        self.shared.lock().unwrap().answer = answer;
    }

    /// Answers with a Node that has these `spec.podCIDRs`.
    pub fn answer_with_node(&self, pod_cidrs: &[&str]) {
        let spec = match pod_cidrs {
            [] => serde_json::json!({}),
            all => serde_json::json!({"podCIDR": all[0], "podCIDRs": all}),
        };
        let node = serde_json::json!({"kind": "Node", "apiVersion": "v1", "spec": spec});
        self.answer(ApiAnswer::Says(200, node.to_string()));
    }

    /// The header lines of each request.
    pub fn requests(&self) -> Vec<Vec<String>> {
        self.shared.lock().unwrap().requests.clone()
    }

    /// Host and port, as in messages.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The environment variables that tell a container the server's address.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("KUBERNETES_SERVICE_HOST", self.address.ip().to_string()),
            ("KUBERNETES_SERVICE_PORT", self.address.port().to_string()),
        ]
    }

    /// The folder of the service account.
    pub fn account(&self) -> &Path {
        &self.account
    }
}

fn serve(mut stream: Stream, shared: &Mutex<Shared>) -> std::io::Result<()> {
    if matches!(shared.lock().unwrap().answer, ApiAnswer::Closes) {
        return Ok(());
    }
    let request = read_request(&mut stream)?;
    let mut shared = shared.lock().unwrap();
    shared.requests.push(request.head);
    match shared.answer.clone() {
        ApiAnswer::Says(status, body) => {
            stream.write_all(&answer(status, &[], &body))?;
            stream.conn.send_close_notify();
            stream.flush()
        }
        ApiAnswer::Nothing => {
            shared.held.push(stream);
            Ok(())
        }
        ApiAnswer::Closes => Ok(()),
    }
}
