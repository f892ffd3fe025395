//! Upstreams that repeat what they were sent.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::kit::{House, KEY};

const OTHER: &str = "the-other-key-b026324c6904b2a9";
const HEAD: &str = "connection: close\r\n";

/// Serves each connection with `answer`, and hands the heads over.
fn upstream(answer: impl Fn(&mut TcpStream, &str) + Send + 'static) -> (House, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut reader = BufReader::with_capacity(1, stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|n| n > 0) {}
            // The body, that the end of the connection is no reset.
            let _ = std::io::Read::read_exact(&mut reader, &mut [0; 2]);
            answer(&mut stream, &head);
            let _ = tell.send(head);
        }
    });
    let variables = [("ANTHROPIC_API_KEY", KEY), ("OPENAI_API_KEY", OTHER), ("SANDLOG_UPSTREAM_ANTHROPIC", &url), ("SANDLOG_UPSTREAM_OPENAI", &url)];
    let house = House::new(&variables);
    house.run();
    (house, told)
}

fn ask(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n{headers}connection: close\r\n\r\n{{}}")
}

#[test]
fn a_refusal_that_repeats_the_keys_comes_without_them() {
    let (house, heads) = upstream(|stream, head| {
        let body = format!("you sent {head} and before {OTHER}");
        let line = head.lines().find(|line| line.contains(KEY) || line.contains(OTHER)).unwrap();
        let _ = write!(stream, "HTTP/1.1 401 No\r\nx-echo: {line}\r\nx-{KEY}: 1\r\n{HEAD}content-length: {}\r\n\r\n{body}", body.len());
    });
    for (path, sent) in [("/anthropic/v1/messages", format!("x-api-key: {KEY}")), ("/openai/v1/responses", format!("authorization: Bearer {OTHER}"))]
    {
        let (said, doors) = house.ask(&ask(path, ""));
        assert!(heads.recv().unwrap().contains(&sent));
        assert!(said.starts_with("HTTP/1.1 401 ") && !said.contains(KEY) && !said.contains(OTHER), "{said}");
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("x-echo: ") && head.contains("**"), "{said}");
        assert!(head.contains(&format!("content-length: {}", body.len())) && body.starts_with("you sent ") && body.ends_with("**"), "{said}");
        assert_eq!((doors[0].status, doors[0].response_bytes), (Some(401), body.len() as u64));
    }
}

#[test]
fn a_stream_that_repeats_the_key_comes_without_it_wherever_it_is_parted() {
    let (house, _heads) = upstream(|stream, _| {
        stream.set_nodelay(true).unwrap();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{HEAD}transfer-encoding: chunked\r\n\r\n");
        for byte in format!("data: {KEY}\n\ndata: {}", &KEY[..5]).chars() {
            let _ = write!(stream, "1\r\n{byte}\r\n");
        }
        let _ = write!(stream, "0\r\n\r\n");
    });
    let (said, doors) = house.ask(&ask("/anthropic/v1/messages", ""));
    let body: String = said.split("\r\n\r\n").nth(1).unwrap().split("\r\n").skip(1).step_by(2).collect();
    assert_eq!(body, format!("data: {}\n\ndata: {}", "*".repeat(KEY.len()), &KEY[..5]));
    assert!(said.ends_with("\r\n0\r\n\r\n"), "{said}");
    assert_eq!((doors[0].status, doors[0].cut, doors[0].response_bytes), (Some(200), false, body.len() as u64));
}

#[test]
fn most_of_a_key_before_a_cut_does_not_come() {
    let (house, _heads) = upstream(|stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{HEAD}content-length: 100\r\n\r\nhalf {}", &KEY[..KEY.len() - 1]);
    });
    let (said, doors) = house.ask(&ask("/anthropic/v1/messages", ""));
    assert!(said.ends_with("\r\n\r\nhalf "), "{said}");
    assert!(doors[0].cut);
}

#[test]
fn an_answer_in_which_a_key_could_not_be_seen_is_refused() {
    for header in ["content-encoding: gzip\r\ncontent-length: 4", "transfer-encoding: gzip, chunked"] {
        let (house, heads) = upstream(move |stream, _| {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{HEAD}{header}\r\n\r\n4\r\n");
        });
        let (said, doors) = house.ask(&ask("/anthropic/v1/messages", "accept-encoding: gzip\r\n"));
        assert!(heads.recv().unwrap().contains("accept-encoding: identity\r\n"));
        assert!(said.starts_with("HTTP/1.1 502 ") && said.contains("encoded answer"), "{said}");
        assert_eq!((doors[0].status, doors[0].refused.as_deref()), (Some(502), Some("encoded")));
    }
}

#[test]
fn a_request_goes_out_with_the_headers_of_the_models_apis_alone() {
    let (house, heads) = upstream(|stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{HEAD}content-length: 0\r\n\r\n");
    });
    let sent = "content-type: application/json\r\nanthropic-version: 2023-06-01\r\nx-stainless-os: Linux\r\nx_api_key: mine\r\nx-http-method-override: DELETE\r\n\
                x-original-url: /v1/organizations\r\nx-rewrite-url: /admin\r\nx-forwarded-host: evil\r\nrange: bytes=0-9\r\nvia: me\r\n";
    assert!(house.ask(&ask("/anthropic/v1/messages", sent)).0.starts_with("HTTP/1.1 200 "));
    let head = heads.recv().unwrap();
    let mut names: Vec<_> = head.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "anthropic-version", "content-length", "content-type", "host", "x-api-key", "x-stainless-os"]);
}
