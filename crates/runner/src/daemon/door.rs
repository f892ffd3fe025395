//! The door: who comes in, and with which epoch.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use runner::door::{Answer, Hello, MAX_LINE, PROTOCOL, Refused, Welcome};

use super::setup::write_epoch;
use super::shared::{Shared, Visitor};
use super::visit;

/// Visitors at a time: a few workers, not a crowd.
const MOST: u64 = 64;
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Opens it: each visitor gets a thread.
pub(super) fn open(listener: UnixListener, shared: Arc<Shared>) -> io::Result<()> {
    std::thread::Builder::new().name("door".into()).spawn(move || serve(&listener, &shared))?;
    Ok(())
}

fn serve(listener: &UnixListener, shared: &Arc<Shared>) {
    let inside = Arc::new(AtomicU64::new(0));
    for (number, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if inside.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        inside.fetch_add(1, Ordering::Relaxed);
        let (shared, leaving) = (Arc::clone(shared), Arc::clone(&inside));
        let visit = move || {
            if let Err(error) = greet(&shared, stream, number) {
                eprintln!("visitor {number}: {error}");
            }
            shared.lock().visitors.retain(|visitor| visitor.number != number);
            leaving.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("visitor".into()).spawn(visit).is_err() {
            inside.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn greet(shared: &Arc<Shared>, mut stream: UnixStream, number: u64) -> io::Result<()> {
    stream.set_read_timeout(Some(HELLO_LIMIT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let line = read_line(&mut reader)?;
    let hello = serde_json::from_slice::<Hello>(&line).ok();
    let answer = match &hello {
        Some(hello) => admit(shared, hello, &stream, number)?,
        None => refuse(shared.lock().epoch, "hello"),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let (Answer::Welcome(_), Some(hello)) = (answer, hello) else {
        return Ok(());
    };
    stream.set_read_timeout(None)?;
    let done = visit::serve(shared, hello.epoch, &mut reader, &stream);
    // Also ends the thread that sends the journal.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    done
}

/// A higher epoch is on disk before it is welcome, and shows the lower ones out.
fn admit(shared: &Shared, hello: &Hello, stream: &UnixStream, number: u64) -> io::Result<Answer> {
    let mut state = shared.lock();
    if hello.protocol != PROTOCOL {
        return Ok(refuse(state.epoch, "protocol"));
    }
    if hello.deployment != shared.spec.deployment {
        return Ok(refuse(state.epoch, "deployment"));
    }
    if hello.epoch < state.epoch {
        return Ok(refuse(state.epoch, "epoch"));
    }
    if hello.epoch > state.epoch {
        write_epoch(&shared.folder, hello.epoch)?;
        state.epoch = hello.epoch;
        for older in &state.visitors {
            if older.epoch < hello.epoch {
                // It may have left.
                let _ = older.stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }
    state.visitors.push(Visitor { number, epoch: hello.epoch, stream: stream.try_clone()? });
    Ok(Answer::Welcome(Welcome { protocol: PROTOCOL, ended: state.ended, end: state.end }))
}

fn refuse(epoch: u64, why: &str) -> Answer {
    Answer::Refused(Refused { epoch, why: why.to_owned() })
}

/// One line without its newline. Empty: the visitor left.
pub(super) fn read_line(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') | None => Ok(line),
        Some(_) => Err(io::Error::other("a line without an end")),
    }
}
