//! One visitor's orders.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use runner::door::{MAX_INBOX, Order};

use super::clock;
use super::door::read_line;
use super::shared::Shared;

/// How much input may wait for a harness that does not read.
const MAX_WAITING: usize = 2 * MAX_INBOX as usize;

/// Obeys until the visitor leaves. Whether its epoch still stands is checked at each order, under the lock that raises it.
pub(super) fn serve(shared: &Arc<Shared>, epoch: u64, reader: &mut impl BufRead, stream: &UnixStream) -> io::Result<()> {
    let mut attached = false;
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok(());
        }
        let order = serde_json::from_slice(&line)?;
        let bytes = read_bytes(&order, reader)?;
        if shared.lock().epoch > epoch {
            return Ok(());
        }
        if let Order::Attach { offset } = order {
            if std::mem::replace(&mut attached, true) {
                return Err(io::Error::other("attached twice"));
            }
            send_from(shared, offset, stream)?;
        } else {
            obey(shared, order, bytes)?;
        }
    }
}

fn read_bytes(order: &Order, reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let Order::Inbox { len, .. } = order else {
        return Ok(Vec::new());
    };
    if *len > MAX_INBOX {
        return Err(io::Error::other("an inbox line beyond the limit"));
    }
    let mut bytes = Vec::new();
    reader.by_ref().take(*len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == *len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn obey(shared: &Shared, order: Order, bytes: Vec<u8>) -> io::Result<()> {
    match order {
        Order::Attach { .. } => Ok(()),
        Order::Committed { offset } => shared.committed(offset),
        Order::Inbox { n, end, .. } => take_in(shared, n, bytes, end),
        Order::Alive => {
            shared.lock().last_alive = clock::now();
            Ok(())
        }
        Order::Kill { reason, grace_ms } => {
            shared.kill(&format!("killed:{reason}"), Duration::from_millis(grace_ms));
            Ok(())
        }
        Order::Dismiss => {
            let mut state = shared.lock();
            state.dismissed = true;
            let over = state.ended;
            drop(state);
            shared.changed.notify_all();
            if !over {
                shared.kill("killed:dismissed", Duration::ZERO);
            }
            Ok(())
        }
    }
}

/// Recorded before it is fed.
fn take_in(shared: &Shared, n: u64, bytes: Vec<u8>, end: bool) -> io::Result<()> {
    let mut state = shared.lock();
    if n < state.inbox_next {
        return Ok(());
    }
    if n > state.inbox_next {
        return Err(io::Error::other(format!("inbox line {n} comes before {}", state.inbox_next)));
    }
    let waiting: usize = state.input.iter().map(|(bytes, _)| bytes.len()).sum();
    if waiting + bytes.len() > MAX_WAITING {
        return Err(io::Error::other("the harness does not read its input"));
    }
    let mut record = format!("{n} {} {}\n", bytes.len(), u8::from(end)).into_bytes();
    record.extend_from_slice(&bytes);
    (&shared.inbox).write_all(&record)?;
    state.inbox_next = n + 1;
    state.input.push_back((bytes, end));
    drop(state);
    shared.wake();
    Ok(())
}

/// Sends the journal from a thread of its own, so that orders are heard meanwhile.
fn send_from(shared: &Arc<Shared>, offset: u64, stream: &UnixStream) -> io::Result<()> {
    let state = shared.lock();
    if offset > state.end || offset < state.committed {
        return Err(io::Error::other(format!("no journal at {offset}: it has {} to {}", state.committed, state.end)));
    }
    drop(state);
    let (shared, stream) = (Arc::clone(shared), stream.try_clone()?);
    std::thread::Builder::new().name("journal".into()).spawn(move || {
        if send(&shared, offset, &stream).is_err() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    })?;
    Ok(())
}

/// Until the exit record is sent, or the visitor is gone, which a write tells, or a look when there is nothing to write.
fn send(shared: &Shared, mut at: u64, mut stream: &UnixStream) -> io::Result<()> {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let mut state = shared.lock();
        while state.end == at {
            if state.ended {
                return Ok(());
            }
            state = shared.wait(state, Duration::from_secs(1));
            if hung_up(stream) {
                return Ok(());
            }
        }
        let ready = usize::try_from(state.end - at).unwrap_or(usize::MAX).min(chunk.len());
        drop(state);
        shared.journal.read_exact_at(&mut chunk[..ready], at)?;
        stream.write_all(&chunk[..ready])?;
        at += ready as u64;
    }
}

fn hung_up(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}
