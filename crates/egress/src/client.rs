//! Connections to the upstreams: kept for the next request, made within a limit, over TLS unless the upstream is on loopback.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

use crate::body::Counted;

/// To a connection that is made, its handshake included.
const LIMIT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const KEPT: Duration = Duration::from_secs(30);

pub(crate) type Upstreams = Client<Limited<HttpsConnector<HttpConnector>>, Counted>;

/// Trusts the certificates that are built in, and those in the file.
pub(crate) fn new(certificates: Option<&str>) -> io::Result<Upstreams> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(file) = certificates {
        let failed = |error| io::Error::other(format!("SSL_CERT_FILE: {file}: {error:?}"));
        for certificate in CertificateDer::pem_file_iter(file).map_err(failed)? {
            // One that cannot be used is none to trust.
            let _ = roots.add(certificate.map_err(failed)?);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(http);
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new()).pool_idle_timeout(KEPT).pool_max_idle_per_host(32);
    Ok(client.build(Limited(https)))
}

/// A connector with a limit of time.
#[derive(Clone)]
pub(crate) struct Limited<C>(C);

impl<C> Service<Uri> for Limited<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Response: 'static,
    C::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = C::Response;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            match tokio::time::timeout(LIMIT, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(format!("no connection within {LIMIT:?}").into()),
            }
        })
    }
}
