//! TLS to a server behind a gateway: by the system's roots, or those of `SSL_CERT_FILE`.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// Where it is not needed (`http://`, unless that leads on) a system may well have no roots.
pub(super) fn client(is_needed: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Some of a system's certificates may be too old for the library; those that it can use are used.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if is_needed && roots.is_empty() {
        return Err("this system has no root certificates: name a file with SSL_CERT_FILE".into());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions();
    Ok(builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}
