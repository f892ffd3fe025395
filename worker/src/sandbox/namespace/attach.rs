//! Attaching: the journal's bytes become records, orders become lines at the door.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use runner::door::Order;
use runner::journal::{Body, Decoder, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::folder::Stands;
use super::{Attached, Inner, Place, SandboxError};
use crate::sandbox::{Batch, Orders, Records, Sent};

const CHUNK: usize = 64 * 1024;
/// Batches that wait for a slow reader: with what the socket holds, well under a MiB.
const WAITING: usize = 2;

/// Where a journal comes from.
pub(super) enum Source {
    /// A living runner, and whether its sandbox needs egress.
    Runner(std::os::unix::net::UnixStream, bool),
    /// A dead one's file, at the offset.
    File(File),
}

impl Inner {
    pub(super) fn source(&self, at: &Place, epoch: u64, offset: u64) -> Result<Source, SandboxError> {
        let folder = self.folder(at)?;
        let _fence = folder.fence(epoch)?;
        match self.visit(&folder, epoch)? {
            Ok(mut visit) => {
                visit.order(&Order::Attach { offset })?;
                let spec = runner::spec::Spec::read(&folder.path).map_err(SandboxError::io("spec.json"))?;
                let outside = spec.outside.is_some();
                if outside {
                    self.egress.ensure_or_warn();
                }
                Ok(Source::Runner(visit.stream, outside))
            }
            Err(Stands::Dead) => {
                folder.end_tree()?;
                let open = || {
                    let mut file = File::open(folder.path.join("journal"))?;
                    file.seek(SeekFrom::Start(offset)).map(|_| file)
                };
                open().map(Source::File).map_err(SandboxError::io("the journal"))
            }
            Err(_) => Err(SandboxError::Absent),
        }
    }
}

impl Source {
    pub(super) fn attach(self, offset: u64, inner: Arc<Inner>) -> Result<Attached, SandboxError> {
        let (batches, records) = mpsc::channel(WAITING);
        let records = Records::new(records);
        let decoder = Decoder::new(offset);
        match self {
            Self::File(file) => {
                tokio::task::spawn_blocking(move || read_file(file, decoder, &batches));
                Ok(Attached { records, orders: Orders::nowhere() })
            }
            Self::Runner(stream, outside) => {
                let tokio_stream = || {
                    stream.set_nonblocking(true)?;
                    UnixStream::from_std(stream)
                };
                let stream: UnixStream = tokio_stream().map_err(SandboxError::io("the door"))?;
                let (from, to) = stream.into_split();
                let (orders, given) = mpsc::channel(16);
                let (read, done) = oneshot::channel();
                tokio::spawn(async move {
                    read_socket(from, decoder, &batches).await;
                    // The other task keeps its half open until now.
                    let _ = read.send(());
                });
                tokio::spawn(write_orders(to, given, done, outside.then_some(inner)));
                Ok(Attached { records, orders: Orders::new(orders) })
            }
        }
    }
}

async fn read_socket(mut from: OwnedReadHalf, mut decoder: Decoder, batches: &mpsc::Sender<Batch>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            read = from.read(&mut chunk) => read,
            () = batches.closed() => return,
        };
        let next = match read {
            Ok(0) => vec![Err(SandboxError::Unreachable("the runner's connection ended".into()))],
            Ok(n) => decode(&mut decoder, &chunk[..n]),
            Err(error) => vec![Err(SandboxError::Unreachable(error.to_string()))],
        };
        for batch in next {
            let last = is_last(&batch);
            if batches.send(batch).await.is_err() || last {
                return;
            }
        }
    }
}

/// A dead runner's journal ends with its file, maybe in a torn record.
fn read_file(mut file: File, mut decoder: Decoder, batches: &mpsc::Sender<Batch>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let next = match file.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => decode(&mut decoder, &chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => vec![Err(SandboxError::io("the journal")(error))],
        };
        for batch in next {
            let last = is_last(&batch);
            if batches.blocking_send(batch).is_err() || last {
                return;
            }
        }
    }
}

/// The records that are whole by now, if there are any, and then what is wrong with the bytes after them, if something is.
fn decode(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Batch> {
    decoder.feed(bytes);
    let mut records = Vec::new();
    let wrong = loop {
        match decoder.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break None,
            Err(corrupt) => break Some(Err(SandboxError::Corrupt(corrupt.to_string()))),
        }
    };
    let whole = (!records.is_empty()).then_some(Ok(records));
    whole.into_iter().chain(wrong).collect()
}

fn is_last(batch: &Batch) -> bool {
    let is_exit = |(record, _): &(Record, u64)| matches!(record.body, Body::Exit(_));
    batch.as_ref().map_or(true, |records| records.last().is_some_and(is_exit))
}

async fn write_orders(mut to: OwnedWriteHalf, mut given: mpsc::Receiver<Sent>, done: oneshot::Receiver<()>, egress: Option<Arc<Inner>>) {
    while let Some((order, bytes)) = given.recv().await {
        if let (Order::Alive, Some(inner)) = (&order, &egress) {
            // Should it have been killed, the sandbox waits for no other to be made. Nobody waits for this.
            let inner = Arc::clone(inner);
            tokio::task::spawn_blocking(move || inner.egress.ensure_or_warn());
        }
        let Ok(mut line) = serde_json::to_vec(&order) else { continue };
        line.push(b'\n');
        line.extend_from_slice(&bytes);
        if to.write_all(&line).await.is_err() {
            // The runner is gone; who gives orders sees that by the records.
            return;
        }
    }
    // Closing this half ends the visit, records and all.
    let _ = done.await;
}
