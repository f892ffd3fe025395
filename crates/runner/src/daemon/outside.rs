//! The way to the outside, from the runner's side: what connects inside is joined to egress, as long as the turn lasts.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use runner::egress::{DOOR, Hello, PROTOCOL, To};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::join;
use super::joins::Seat;
use super::shared::Shared;
use crate::outside::receive;

/// How often to look whether egress is back.
const LOOK: Duration = Duration::from_secs(1);
/// How often to look whether there is room again.
const FULL: Duration = Duration::from_millis(20);

/// Serves from a thread of its own, once the listener comes from inside.
pub(super) fn open(shared: Arc<Shared>, from: Option<UnixStream>) -> io::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let serve = move || {
        // Without a listener the start has failed, which is told elsewhere.
        let Ok(listener) = receive(&from) else { return };
        drop(from);
        if let Err(error) = accept(&shared, &listener) {
            eprintln!("the way to the outside: {error}");
        }
    };
    std::thread::Builder::new().name("outside".into()).spawn(serve)?;
    Ok(())
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut stay = None;
    loop {
        if stay.as_ref().is_none_or(hung_up) {
            stay = enter(shared, To::Stay).ok();
        }
        let full = shared.joins.are_full();
        let mut fds = vec![PollFd::new(&shared.joins.closed, PollFlags::IN)];
        fds.extend((!full).then(|| PollFd::new(listener, PollFlags::IN)));
        fds.extend(stay.as_ref().map(|stay| PollFd::new(stay, PollFlags::empty())));
        wait(&mut fds, if full { FULL } else { LOOK })?;
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        if full {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                let seat = Seat::take(Arc::clone(shared));
                std::thread::Builder::new().name("join".into()).spawn(move || join::serve(&seat, &stream))?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The caller went away, or descriptors are short.
            Err(_) => std::thread::sleep(FULL),
        }
    }
}

/// Goes in at egress's door.
pub(super) fn enter(shared: &Shared, to: To) -> io::Result<UnixStream> {
    let outside = shared.spec.outside.as_ref().ok_or_else(|| io::Error::other("no way out"))?;
    // The path can be longer than an address holds.
    let folder = File::open(&outside.egress)?;
    let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{DOOR}", folder.as_raw_fd()))?;
    let hello = Hello { protocol: PROTOCOL, deployment: shared.spec.deployment.clone(), sandbox: shared.spec.label.clone(), to };
    let mut line = serde_json::to_vec(&hello)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    Ok(stream)
}

fn hung_up(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    wait(&mut fds, Duration::ZERO).is_err() || fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

fn wait(fds: &mut [PollFd<'_>], limit: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    match poll(fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
