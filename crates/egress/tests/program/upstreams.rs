//! Requests to upstreams that a test serves, over TLS too.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::kit::{House, KEY};

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 32\r\nconnection: close\r\n\r\n{\"usage\": {\"output_tokens\": 12}}";
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/tls/certificate.pem");

/// Reads a request's head.
fn head(stream: &mut impl Read) -> String {
    let mut head = String::new();
    let mut reader = BufReader::with_capacity(1, stream);
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|n| n > 0) {}
    head
}

/// A server with a certificate of its own, whose answer is cut if `cut`.
fn tls(cut: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/tls/key.pem");
    let (certificate, key) = (CertificateDer::from_pem_file(CERTIFICATE).unwrap(), PrivateKeyDer::from_pem_file(key).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream.unwrap());
            if !head(&mut stream).contains(&format!("x-api-key: {KEY}\r\n")) {
                continue;
            }
            if cut {
                // Neither a length nor the end of TLS: only that is missing.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhalf");
            } else {
                let _ = stream.write_all(ANSWER);
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
        }
    });
    port
}

const ASK: &str = "POST /anthropic/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";

fn house(port: u16, more: &[(&str, &str)]) -> House {
    let url = format!("https://localhost:{port}");
    let mut house = House::new(&[("ANTHROPIC_API_KEY", KEY), ("SANDLOG_UPSTREAM_ANTHROPIC", &url)]);
    house.variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    house.run();
    house
}

#[test]
fn an_upstream_over_tls_is_asked_if_its_certificate_is_trusted() {
    let port = tls(false);
    let (said, doors) = house(port, &[("SSL_CERT_FILE", CERTIFICATE)]).ask(ASK);
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("12}}"), "{said}");
    assert_eq!((doors[0].status, doors[0].output_tokens, doors[0].request_bytes, doors[0].cut), (Some(200), Some(12), 2, false));

    let (said, doors) = house(port, &[]).ask(ASK);
    assert!(said.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && said.contains("invalid peer certificate"), "{said}");
    assert_eq!(doors[0].refused.as_deref(), Some("unreachable"));
    assert!(!said.contains(KEY));
}

#[test]
fn an_answer_over_tls_that_ends_without_the_end_of_tls_is_cut() {
    let (said, doors) = house(tls(true), &[("SSL_CERT_FILE", CERTIFICATE)]).ask(ASK);
    assert!(said.contains("half") && !said.ends_with("0\r\n\r\n"), "{said}");
    assert_eq!((doors[0].status, doors[0].cut), (Some(200), true));
}

#[test]
fn a_head_beyond_the_limit_is_no_request() {
    let house = house(9, &[]);
    let (said, doors) = house.ask(&format!("GET /anthropic/v1/models HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(100_000)));
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    // Refused before it is a request, or, where it came in whole at once, as one.
    assert!(doors.iter().all(|door| door.refused.as_deref() == Some("request")), "{doors:?}");
    let (said, _) = house.ask("no http\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
}
