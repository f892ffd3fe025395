//! TLS to a server that is known by its name, by its root only, or not at all.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its certificate is for the name that was asked for, by a root that is trusted.
    ByName,
    /// Its certificate is by a root that is trusted, whatever name it is for.
    ByRoot,
    /// Whoever answers: this keeps out who listens, not who stands between.
    Anyone,
}

/// With the roots of `file`, else with the system's.
pub(super) fn client(known: Known, file: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let verifier: Arc<dyn ServerCertVerifier> = match known {
        Known::Anyone => Arc::new(Lenient { provider, chain: None }),
        Known::ByRoot => Arc::new(Lenient { chain: Some(by_name(&provider, file)?), provider }),
        Known::ByName => by_name(&provider, file)?,
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn by_name(provider: &Arc<CryptoProvider>, file: Option<&Path>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let roots = Arc::new(roots(file)?);
    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build().map_err(|error| error.to_string())
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        // Some of a system's certificates may be too old for the library; those that it can use are used.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if roots.is_empty() { Err("this system has no root certificates: name a file with sslrootcert".into()) } else { Ok(roots) };
    };
    let fault = |why: String| format!("sslrootcert {}: {why}", file.display());
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| fault(error.to_string()))? {
        let certificate = certificate.map_err(|error| fault(error.to_string()))?;
        roots.add(certificate).map_err(|error| fault(error.to_string()))?;
    }
    if roots.is_empty() { Err(fault("no certificate is in it".into())) } else { Ok(roots) }
}

/// Asks less than the library does: for the chain without the name, or for nothing. That the server holds its certificate's key is always asked.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last.
        match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
