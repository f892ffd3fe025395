//! Who comes to the door, and what they want.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use runner::egress::{Answer, Hello, MAX_LINE, PROTOCOL, To};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

use crate::pieces::Pieces;
use crate::proxy::Egress;

const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// The longest head of a request, and what is read ahead of a body.
pub(crate) const HEAD: usize = 64 * 1024;
/// Connections at a time, of all sandboxes together.
const MOST: usize = 4096;

struct House {
    egress: Egress,
    open: AtomicUsize,
    /// Who needs it, and since when nobody has.
    needed: Mutex<(usize, Instant)>,
    end: Notify,
}

/// A stay in the house, until this is dropped.
struct Stay(Arc<House>);

/// Serves until it is told to end, or nobody has needed it for long enough.
pub(crate) async fn serve(listener: UnixListener, egress: Egress) {
    let linger = egress.settings.linger;
    let house = Arc::new(House { egress, open: AtomicUsize::new(0), needed: Mutex::new((0, Instant::now())), end: Notify::new() });
    let mut look = tokio::time::interval(Duration::from_millis(500).min(linger.max(Duration::from_millis(10))));
    loop {
        tokio::select! {
            () = house.end.notified() => return,
            _ = look.tick() => {
                let (stays, since) = *house.needed.lock().unwrap_or_else(PoisonError::into_inner);
                if stays == 0 && since.elapsed() >= linger {
                    return;
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if house.open.load(Ordering::Relaxed) < MOST => {
                    house.open.fetch_add(1, Ordering::Relaxed);
                    let house = Arc::clone(&house);
                    tokio::spawn(async move {
                        // Whoever came is gone then.
                        let _ = visit(&house, stream).await;
                        house.open.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    eprintln!("the door: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn visit(house: &Arc<House>, mut stream: UnixStream) -> io::Result<()> {
    let hello = tokio::time::timeout(HELLO_LIMIT, read_line(&mut stream)).await.map_err(io::Error::from)?;
    let (line, rest) = hello?;
    let Some(Hello { to, .. }) = serde_json::from_slice::<Hello>(&line).ok().filter(|hello| hello.protocol == PROTOCOL) else {
        return say(&mut stream, Answer::Refused).await;
    };
    match to {
        To::Join { upstreams } => {
            let _stay = house.enter();
            join(house, stream, rest, upstreams).await
        }
        To::Stay => {
            let _stay = house.enter();
            // Nothing comes but the end.
            stream.read(&mut [0; 1]).await.map(drop)
        }
        To::Replace { settings } if settings == house.egress.settings.fingerprint() => say(&mut stream, Answer::Same).await,
        To::Replace { .. } | To::End => house.leave(&mut stream).await,
    }
}

/// The first line, and what came with it.
async fn read_line(stream: &mut UnixStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut line = Vec::new();
    loop {
        if stream.read_buf(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(at) = line.iter().position(|byte| *byte == b'\n') {
            let rest = line.split_off(at + 1);
            return Ok((line, rest));
        }
        if line.len() as u64 > MAX_LINE {
            return Err(io::Error::other("a line without an end"));
        }
    }
}

async fn join(house: &Arc<House>, stream: UnixStream, first: Vec<u8>, may: Vec<String>) -> io::Result<()> {
    let pieces = Pieces::new(stream, first);
    pieces.write().await?;
    let (records, may) = (pieces.records.clone(), Arc::new(may));
    let service = service_fn(|request| {
        let (house, may, records) = (Arc::clone(house), Arc::clone(&may), records.clone());
        async move { Ok::<_, Infallible>(house.egress.answer(&may, records, request).await) }
    });
    let served = http1::Builder::new().max_buf_size(HEAD).serve_connection(TokioIo::new(pieces.clone()), service);
    // How it ended is in the records.
    let _ = served.await;
    pieces.end().await
}

async fn say(stream: &mut UnixStream, answer: Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

impl House {
    fn enter(self: &Arc<Self>) -> Stay {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Stay(Arc::clone(self))
    }

    async fn leave(&self, stream: &mut UnixStream) -> io::Result<()> {
        if self.needed.lock().unwrap_or_else(PoisonError::into_inner).0 > 0 {
            return say(stream, Answer::Busy).await;
        }
        let said = say(stream, Answer::Ends).await;
        self.end.notify_one();
        said
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut needed = self.0.needed.lock().unwrap_or_else(PoisonError::into_inner);
        *needed = (needed.0 - 1, Instant::now());
    }
}
