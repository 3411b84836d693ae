//! A bare HTTP server with the daemon's libraries: it reads a body, and answers `{}`.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

/// Serves a socket until the process ends.
pub(super) fn start(socket: &Path) -> Result<()> {
    let _ = fs::remove_file(socket);
    let socket = socket.to_owned();
    let (listens, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let served = runtime
            .map_err(Into::into)
            .and_then(|runtime: Runtime| runtime.block_on(serve(&socket, &listens)));
        if let Err(error) = served {
            eprintln!("the echo has ended: {error:#}");
        }
    });
    is_ready.recv().context("the echo doesn't listen")
}

async fn serve(socket: &Path, listens: &mpsc::Sender<()>) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    listens.send(())?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            // A closed connection is not an error.
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let _ = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(b"{}"))))
}
