//! One GET, for the keys of whoever signs tokens: over TLS, or on loopback without.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

/// A request waits for it.
const LIMIT: Duration = Duration::from_secs(5);
const LARGEST: usize = 1024 * 1024;

pub(super) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    uri: Uri,
}

impl Fetcher {
    pub(super) fn new(uri: Uri) -> io::Result<Self> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(https), uri })
    }

    /// No redirect is followed: what an address is trusted for is what it says itself.
    pub(super) async fn get(&self) -> Result<Bytes, String> {
        let asked = async {
            let answer = self.client.get(self.uri.clone()).await.map_err(|error| adapters::program::chain(&error))?;
            match answer.status() {
                StatusCode::OK => {
                    Limited::new(answer.into_body(), LARGEST).collect().await.map(|body| body.to_bytes()).map_err(|error| error.to_string())
                }
                status => Err(format!("the answer is {status}")),
            }
        };
        tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(|_| Err(format!("no answer within {LIMIT:?}")))
    }
}
