//! TLS to a server that is known by its name, by its root only, or not at all.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
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

/// With the certificates of `file`, else with the system's.
pub(super) fn client(known: Known, file: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let trusted = match known {
        Known::Anyone => None,
        Known::ByRoot | Known::ByName => Some(Trusted::new(&provider, file)?),
    };
    let verifier = Arc::new(Verifier { provider, trusted, by_name: known == Known::ByName });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Whose certificates are believed.
#[derive(Debug)]
struct Trusted {
    chain: Arc<WebPkiServerVerifier>,
    /// Those of the file, which are believed to be somebody's also after they have expired: a server may have one of them itself, as one that it signed has. The library takes none that could sign others for a server's.
    named: Vec<CertificateDer<'static>>,
}

impl Trusted {
    fn new(provider: &Arc<CryptoProvider>, file: Option<&Path>) -> Result<Self, String> {
        let (mut roots, named) = (RootCertStore::empty(), file.map(certificates).transpose()?.unwrap_or_default());
        if let Some(file) = file {
            for certificate in &named {
                roots.add(certificate.clone()).map_err(|error| fault(file, &error))?;
            }
        } else {
            // Some of a system's certificates may be too old for the library; those that it can use are used.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no root certificates: name a file with sslrootcert".into());
            }
        }
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        Ok(Self { chain: chain.map_err(|error| error.to_string())?, named })
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|error| fault(file, &error))?;
    if read.is_empty() { Err(fault(file, &"no certificate is in it")) } else { Ok(read) }
}

fn fault(file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("sslrootcert {}: {why}", file.display())
}

/// Asks less than the library does: for the chain without the name, or for nothing. That the server holds its certificate's key is always asked.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Nothing: whoever answers.
    trusted: Option<Trusted>,
    by_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(Trusted { chain, named }) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let verified = if named.contains(end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name).map(|()| ServerCertVerified::assertion())
        } else {
            chain.verify_server_cert(end_entity, intermediates, name, ocsp, now)
        };
        // The name is looked at last.
        match verified {
            Err(Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) if !self.by_name => {
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
