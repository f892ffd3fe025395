//! One connection of the sandbox, joined to egress: raw bytes go out, pieces come back, of which the records go into the journal.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runner::egress::{Piece, To, read};
use runner::journal::Door;

use super::joins::Seat;
use super::outside::enter;

const CHUNK: usize = 32 * 1024;
/// How long egress may be away, as it is between two.
const AWAY: Duration = Duration::from_secs(1);
/// How long egress may take to say the first word.
const HELLO_LIMIT: Duration = Duration::from_secs(4);
/// How long the sandbox may take to close what it asked on after the last answer.
const LINGER: Duration = Duration::from_secs(2);
/// The way a request is answered that egress cannot answer.
const NO_EGRESS: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 119\r\n\r\n\
    {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"sandlog: the way to the outside is not there; try again later\"}}";

/// Serves it to its end.
pub(super) fn serve(seat: &Seat, inside: &TcpStream) {
    // A connection that fails here is gone, whatever is said on it.
    let _ = inside.set_nodelay(true);
    let done = match try_to_enter(seat) {
        Some(egress) => joined(seat, inside, &egress),
        None => turn_away(seat, inside),
    };
    if let Err(error) = done {
        eprintln!("a connection to the outside: {error}");
    }
}

fn try_to_enter(seat: &Seat) -> Option<UnixStream> {
    let upstreams = seat.shared.spec.outside.as_ref().map(|outside| outside.upstreams.clone()).unwrap_or_default();
    let until = Instant::now() + AWAY;
    loop {
        // One that is about to end takes connections that it does not live to serve.
        match enter(&seat.shared, To::Join { upstreams: upstreams.clone() }).and_then(welcomed) {
            Ok(egress) => return Some(egress),
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return None,
        }
    }
}

fn welcomed(mut egress: UnixStream) -> io::Result<UnixStream> {
    egress.set_read_timeout(Some(HELLO_LIMIT))?;
    match read(&mut egress)? {
        Piece::Welcome => egress.set_read_timeout(None).map(|()| egress),
        _ => Err(io::Error::other("no welcome")),
    }
}

/// Nobody is there: what is asked is answered here.
fn turn_away(seat: &Seat, mut inside: &TcpStream) -> io::Result<()> {
    if inside.read(&mut [0; 1])? > 0 {
        refuse(seat, inside)?;
    }
    linger(inside);
    Ok(())
}

fn refuse(seat: &Seat, mut inside: &TcpStream) -> io::Result<()> {
    seat.record(Door { status: Some(502), refused: Some("egress".into()), ..Door::default() });
    inside.write_all(NO_EGRESS)
}

/// Lets the sandbox read to the end before the connection goes, which what it still sends would break off.
fn linger(mut inside: &TcpStream) {
    // Whether it works or not, the connection is over.
    let _ = inside.shutdown(Shutdown::Write);
    let until = Instant::now() + LINGER;
    let mut chunk = vec![0; CHUNK];
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        let _ = inside.set_read_timeout(Some(left));
        if inside.read(&mut chunk).unwrap_or(0) == 0 {
            return;
        }
    }
}

/// How a joined connection ended.
#[derive(PartialEq, Eq)]
enum End {
    /// With all that egress had to say.
    Whole,
    /// In an answer: the sandbox must not take it for the answer's end.
    Cut,
    /// With egress, and the request under way has not been answered.
    Unanswered,
}

fn joined(seat: &Seat, inside: &TcpStream, egress: &UnixStream) -> io::Result<()> {
    seat.joined(egress.try_clone()?);
    let answered = AtomicBool::new(false);
    let end = std::thread::scope(|scope| {
        let asks = scope.spawn(|| ask(seat, inside, egress, &answered));
        let end = answer(seat, inside, egress, &answered);
        let said = if end == End::Unanswered { refuse(seat, inside) } else { Ok(()) };
        // Ends the other thread: what it cannot write there it reads to the end here.
        let _ = egress.shutdown(Shutdown::Both);
        if end == End::Cut {
            let _ = inside.shutdown(Shutdown::Read);
        } else {
            let _ = inside.shutdown(Shutdown::Write);
            let _ = inside.set_read_timeout(Some(LINGER));
        }
        let _ = asks.join();
        said.map(|()| end)
    })?;
    if end == End::Cut {
        // No end that could be taken for the answer's: the connection is broken off.
        rustix::net::sockopt::set_socket_linger(inside, Some(Duration::ZERO))?;
    }
    Ok(())
}

/// Sends on what the sandbox says, and reads on what nobody takes any more.
fn ask(seat: &Seat, mut inside: &TcpStream, mut egress: &UnixStream, answered: &AtomicBool) {
    let mut chunk = vec![0; CHUNK];
    let mut until = None;
    while until.is_none_or(|until| Instant::now() < until) {
        let n = match inside.read(&mut chunk) {
            Ok(n) if n > 0 => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            _ => break,
        };
        if until.is_none() {
            if !seat.asked.swap(true, Ordering::SeqCst) {
                answered.store(false, Ordering::SeqCst);
            }
            if egress.write_all(&chunk[..n]).is_err() {
                until = Some(Instant::now() + LINGER);
            }
        }
    }
    // Egress takes this as the sandbox's going away.
    let _ = egress.shutdown(Shutdown::Write);
}

/// Gives the sandbox what egress says.
fn answer(seat: &Seat, mut inside: &TcpStream, egress: &UnixStream, answered: &AtomicBool) -> End {
    let mut from = BufReader::with_capacity(CHUNK, egress);
    let (mut gone, mut cut) = (false, false);
    loop {
        match read(&mut from) {
            Ok(Piece::Data(bytes)) => {
                answered.store(true, Ordering::SeqCst);
                // Egress tells what became of the request all the same.
                if !gone && inside.write_all(&bytes).is_err() {
                    gone = true;
                    let _ = egress.shutdown(Shutdown::Write);
                }
            }
            Ok(Piece::Record(door)) => {
                cut |= door.cut;
                seat.record(*door);
            }
            Ok(Piece::Welcome) => {}
            Ok(Piece::End) => return if cut { End::Cut } else { End::Whole },
            Err(_) if !seat.asked.load(Ordering::SeqCst) => return End::Whole,
            Err(_) if !answered.load(Ordering::SeqCst) && !gone => return End::Unanswered,
            Err(_) => {
                seat.record(Door { cut: !gone, left: gone, refused: Some("egress".into()), ..Door::default() });
                return End::Cut;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_without_egress_is_as_long_as_it_says() {
        let text = std::str::from_utf8(NO_EGRESS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
