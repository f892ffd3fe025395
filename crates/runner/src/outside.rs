//! The way out of an isolated sandbox begins with a listener on its loopback that the runner holds.
//!
//! `exec` makes it, as the first that runs inside: bubblewrap has made the network namespace and brought its loopback up by then, and listening there
//! needs no right that the harness does not have. The harness never has the descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg};

/// Inside: listens, and sends the listener out.
pub(crate) fn open(to: OwnedFd) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, runner::egress::PORT))
        .map_err(|error| io::Error::new(error.kind(), format!("the way out: {error}")))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fds = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(b"l")], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Outside: waits for the listener. An error: `exec` ended without it.
pub(crate) fn receive(from: impl AsFd) -> io::Result<TcpListener> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    while let Err(error) = recvmsg(&from, &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    let fds = message.drain().find_map(|one| match one {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fds.map(TcpListener::from).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
