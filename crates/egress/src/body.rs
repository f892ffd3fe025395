//! Bodies on their way through. Nothing is held: what the one side does not take the other side is not asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::note::Note;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The request's, which is counted.
pub(crate) struct Counted {
    inner: Incoming,
    sent: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(inner: Incoming, sent: Arc<AtomicU64>) -> Self {
        Self { inner, sent }
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let len = frame.data_ref().map_or(0, Bytes::len);
            self.sent.fetch_add(len as u64, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The answer's, which is noted. The note is handed over before the last bytes are, so that no one sees the end of an answer that is not recorded.
pub(crate) struct Noted {
    inner: Inner,
    note: Note,
    idle: Pin<Box<Sleep>>,
    limit: Duration,
}

enum Inner {
    Upstream(Incoming),
    Own(Full<Bytes>),
}

impl Noted {
    /// An answer of the upstream's, which may be silent for so long.
    pub(crate) fn upstream(inner: Incoming, note: Note, limit: Duration) -> Self {
        Self::new(Inner::Upstream(inner), note, limit)
    }

    /// An answer of ours.
    pub(crate) fn own(text: String, mut note: Note) -> Self {
        note.finish();
        Self::new(Inner::Own(Full::from(text)), note, Duration::ZERO)
    }

    fn new(inner: Inner, note: Note, limit: Duration) -> Self {
        let mut noted = Self { inner, note, idle: Box::pin(sleep(limit)), limit };
        if noted.is_end_stream() {
            noted.note.finish();
        }
        noted
    }

    fn cut(&mut self, fault: Fault) -> Option<Result<Frame<Bytes>, Fault>> {
        self.note.door.cut = true;
        self.note.finish();
        Some(Err(fault))
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let polled = match &mut self.inner {
            Inner::Upstream(inner) => Pin::new(inner).poll_frame(cx).map_err(Fault::from),
            Inner::Own(inner) => return Pin::new(inner).poll_frame(cx).map_err(Fault::from),
        };
        let Poll::Ready(frame) = polled else {
            ready!(self.idle.as_mut().poll(cx));
            return Poll::Ready(self.cut("the upstream fell silent".into()));
        };
        let next = Instant::now() + self.limit;
        self.idle.as_mut().reset(next);
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.note.came(data);
                }
                if self.is_end_stream() {
                    self.note.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(fault)) => Poll::Ready(self.cut(fault)),
            None => {
                self.note.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Upstream(inner) => inner.is_end_stream(),
            Inner::Own(inner) => inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Upstream(inner) => inner.size_hint(),
            Inner::Own(inner) => inner.size_hint(),
        }
    }
}
