//! One HTTP call over a unix socket, as a client.
//!
//! The version is 1.0: the end of the connection is the end of the answer, so no answer comes
//! in chunks. An incomplete answer is invalid JSON, so it is never used.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;

/// The largest answer: a network of Docker's with 60,000 containers has 20 MB.
const LARGEST: usize = 256 << 20;

/// Number of headers that an answer may have.
const HEADERS: usize = 64;

/// Gets the JSON at a path.
///
/// # Errors
///
/// Nobody answers on the socket in time; the answer is an error, or no JSON.
pub(crate) fn get(socket: &Path, path: &str, deadline: Instant) -> Result<Value> {
    let answer = answer(socket, path, deadline);
    answer.with_context(|| format!("{}: {path}", socket.display()))
}

fn answer(socket: &Path, path: &str, deadline: Instant) -> Result<Value> {
    let mut stream = connected(socket)?;
    stream.set_write_timeout(Some(left_until(deadline)?))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let bytes = read(stream, deadline)?;
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(end) = response.parse(&bytes)? else {
        bail!("the answer ends within its head");
    };
    let (status, body) = (response.code.unwrap_or_default(), &bytes[end..]);
    if !(200..300).contains(&status) {
        bail!("{status}: {}", String::from_utf8_lossy(body).trim());
    }
    Ok(serde_json::from_slice(body)?)
}

/// A connection to this socket; an error if its queue is full.
fn connected(path: &Path) -> Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Reads to the end of the connection.
fn read(mut stream: UnixStream, deadline: Instant) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        ensure!(bytes.len() <= LARGEST, "the answer is larger than 256 MiB");
    }
}

fn left_until(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    ensure!(!left.is_zero(), "no answer in time");
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// The result of a call to a peer that sends this answer.
    fn answered(answer: &str) -> Result<Value, String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let length = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                assert!(
                    request.starts_with("GET /networks HTTP/1.0\r\n"),
                    "{request}"
                );
                stream.write_all(answer.as_bytes()).unwrap();
            });
            get(
                &socket,
                "/networks",
                Instant::now() + Duration::from_secs(20),
            )
            .map_err(|error| format!("{error:#}"))
        })
    }

    #[test]
    fn a_whole_answer_is_read() {
        let answer = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n[{\"Id\":\"9a\"}]\n";
        assert_eq!(answered(answer).unwrap()[0]["Id"], "9a");
    }

    #[test]
    fn an_error_and_a_part_of_an_answer_are_errors() {
        for (answer, reason) in [
            (
                "HTTP/1.0 404 Not Found\r\n\r\nno such network\n",
                "404: no such network",
            ),
            ("HTTP/1.0 200 OK\r\n\r\n[{\"Id\":", "EOF"),
            ("HTTP/1.0 200 OK\r\n", "ends within its head"),
            ("", "ends within its head"),
        ] {
            let error = answered(answer).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
