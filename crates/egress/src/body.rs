//! Bodies on their way through. Nothing is held but what may begin a key: what the one side does not take the other side is not asked for.

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
use crate::secret::Mask;

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

/// The answer's, which is noted and has no key in it. The note is handed over before the last bytes are, so that no one sees the end of an answer that is not recorded.
pub(crate) struct Noted {
    inner: Inner,
    note: Note,
    idle: Pin<Box<Sleep>>,
    limit: Duration,
}

enum Inner {
    Upstream(Incoming, Mask),
    Own(Full<Bytes>),
}

impl Noted {
    /// An answer of the upstream's, which may be silent for so long.
    pub(crate) fn upstream(inner: Incoming, mask: Mask, note: Note, limit: Duration) -> Self {
        Self::new(Inner::Upstream(inner, mask), note, limit)
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
        let Self { inner, note, idle, limit } = &mut *self;
        let (inner, mask) = match inner {
            Inner::Upstream(inner, mask) => (inner, mask),
            Inner::Own(inner) => return Pin::new(inner).poll_frame(cx).map_err(Fault::from),
        };
        loop {
            let Poll::Ready(frame) = Pin::new(&mut *inner).poll_frame(cx) else {
                ready!(idle.as_mut().poll(cx));
                return Poll::Ready(self.cut("the upstream fell silent".into()));
            };
            idle.as_mut().reset(Instant::now() + *limit);
            let mut out = Bytes::new();
            let over = match frame {
                Some(Ok(frame)) => {
                    // Trailers have no way on: their names are announced in a header that stays behind.
                    if let Ok(data) = frame.into_data() {
                        note.came(&data);
                        out = mask.feed(data);
                    }
                    inner.is_end_stream()
                }
                // What is held may be most of a key.
                Some(Err(fault)) => return Poll::Ready(self.cut(fault.into())),
                None => true,
            };
            if over {
                out = joined(out, mask.end());
                note.finish();
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
            if over {
                return Poll::Ready(None);
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Upstream(inner, mask) => inner.is_end_stream() && mask.held() == 0,
            Inner::Own(inner) => inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Upstream(inner, mask) => {
                let (mut hint, held) = (inner.size_hint(), mask.held() as u64);
                if let Some(upper) = hint.upper() {
                    hint.set_upper(upper + held);
                }
                hint.set_lower(hint.lower() + held);
                hint
            }
            Inner::Own(inner) => inner.size_hint(),
        }
    }
}

fn joined(first: Bytes, then: Vec<u8>) -> Bytes {
    if then.is_empty() {
        return first;
    }
    let mut all = first.to_vec();
    all.extend(then);
    all.into()
}
