//! A joined connection as HTTP sees it: bytes come as they are, and go in pieces with the records between them.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use runner::egress::{put_data, put_end, put_record, put_welcome};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::note::Records;

/// One side of it, for HTTP to have; the other stays with whoever ends the connection.
#[derive(Clone)]
pub(crate) struct Pieces {
    stream: Arc<UnixStream>,
    /// What came with the first line.
    first: Vec<u8>,
    out: Arc<Mutex<Out>>,
    pub(crate) records: Records,
}

/// What is made and not written yet: a piece of data and records at most.
#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    written: usize,
}

impl Pieces {
    pub(crate) fn new(stream: UnixStream, first: Vec<u8>) -> Self {
        let mut out = Out::default();
        put_welcome(&mut out.bytes);
        Self { stream: Arc::new(stream), first, out: Arc::new(Mutex::new(out)), records: Records::default() }
    }

    /// Writes what is there to be written.
    pub(crate) async fn write(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_write_out(cx)).await
    }

    /// Says what is left to say, after HTTP has ended.
    pub(crate) async fn end(self) -> io::Result<()> {
        self.write().await?;
        put_end(&mut self.out().bytes);
        self.write().await
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until all is written, records that wait included.
    fn poll_write_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = self.out();
        loop {
            while out.written < out.bytes.len() {
                ready!(self.stream.poll_write_ready(cx))?;
                match self.stream.try_write(&out.bytes[out.written..]) {
                    Ok(n) => out.written += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            out.bytes.clear();
            out.written = 0;
            while let Some(door) = self.records.next() {
                put_record(&door, &mut out.bytes);
            }
            if out.bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let n = self.first.len().min(to.remaining());
            to.put_slice(&self.first[..n]);
            self.first.drain(..n);
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(to.initialize_unfilled()) {
                Ok(n) => {
                    to.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_out(cx))?;
        let taken = put_data(bytes, &mut self.out().bytes);
        // What does not go now goes with the next call; that nobody can write is told there.
        if let Poll::Ready(Err(error)) = self.poll_write_out(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_out(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_out(cx)
    }
}
