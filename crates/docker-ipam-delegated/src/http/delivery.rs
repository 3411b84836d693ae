//! Notices when an answer has left: its bytes are in the peer's socket.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::http::answer::Sent;
use crate::lock::lock;

/// The answer of a connection whose bytes are on their way.
#[derive(Clone, Default)]
pub(crate) struct OnItsWay(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl OnItsWay {
    /// The body of an answer. If it is dropped before all of it is written, Docker hasn't
    /// got it.
    pub(crate) fn body(&self, answer: Sent) -> AnswerBody {
        AnswerBody {
            bytes: Some(answer.body.into()),
            delivered: Some(answer.delivered),
            on_its_way: self.clone(),
        }
    }
}

/// The body of an answer.
pub(crate) struct AnswerBody {
    bytes: Option<Bytes>,
    delivered: Option<oneshot::Sender<()>>,
    on_its_way: OnItsWay,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        // From here on, the bytes are the connection's, and the next flush of its socket
        // comes behind them.
        *lock(&self.on_its_way.0) = self.delivered.take();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A socket that notices what has been written.
pub(crate) struct Watched<T> {
    pub(crate) socket: T,
    pub(crate) on_its_way: OnItsWay,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    /// Flushes. All that was to be written before has been.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(())))
            && let Some(delivered) = lock(&self.on_its_way.0).take()
        {
            // Nobody waits if nothing is to be done.
            let _ = delivered.send(());
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
