//! A stand-in for a model's API: a small HTTP server on the host's loopback whose answers each test makes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// With lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body_bytes: u64,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The server. It goes with the test's process.
pub(crate) struct Upstream {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Upstream {
    /// Each request is answered by `answer`, which writes to the connection; then that closes.
    pub(crate) fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let all = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, all, answer) = (stream.unwrap(), Arc::clone(&all), Arc::clone(&answer));
                std::thread::spawn(move || {
                    if let Some(one) = read(&stream) {
                        all.lock().unwrap().push(one.clone());
                        answer(&one, &mut stream);
                    }
                });
            }
        });
        Self { url, asked }
    }

    /// All that came so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request, its body to the end.
fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0).map(|_| line.trim_end().to_owned())
    };
    let mut asked = Asked { line: line()?.trim_end_matches(" HTTP/1.1").to_owned(), ..Asked::default() };
    while let Some(line) = line().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        asked.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = asked.header("content-length").and_then(|length| length.parse().ok());
    let chunked = asked.header("transfer-encoding") == Some("chunked");
    match length {
        Some(length) => asked.body_bytes = std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?,
        None if chunked => loop {
            let mut head = String::new();
            reader.read_line(&mut head).ok()?;
            let length = u64::from_str_radix(head.trim(), 16).ok()?;
            std::io::copy(&mut reader.by_ref().take(length + 2), &mut std::io::sink()).ok()?;
            asked.body_bytes += length;
            if length == 0 {
                break;
            }
        },
        None => {}
    }
    Some(asked)
}

/// A whole answer.
pub(crate) fn whole(stream: &mut TcpStream, kind: &str, body: &str) {
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nset-cookie: a=b\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// The head of an answer in chunks.
pub(crate) fn head(stream: &mut TcpStream) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
}

/// A chunk. Whether it could be written.
pub(crate) fn chunk(stream: &mut TcpStream, text: &str) -> bool {
    write!(stream, "{:x}\r\n{text}\r\n", text.len()).is_ok()
}
