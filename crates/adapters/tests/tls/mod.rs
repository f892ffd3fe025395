//! The same server behind TLS, known by its name, by its root, or not at all.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use adapters::postgres::connect;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::world::Schema;

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

fn authority(name: &str, folder: &std::path::Path) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, issuer.pem()).unwrap();
    Authority { issuer, file }
}

/// What a Postgres with a certificate for `localhost` does before its own protocol begins.
async fn serve(authority: &Authority, behind: String) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority.issuer).unwrap();
    serve_as(certificate.der(), &key, behind).await
}

async fn serve_as(certificate: &CertificateDer<'static>, key: &KeyPair, behind: String) -> SocketAddr {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.clone()], key.serialize_der().try_into().unwrap()).unwrap();
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                // An SSLRequest: length 8, code 80877103. A client that does not ask is one that this server turns away.
                let mut asked = [0; 8];
                stream.read_exact(&mut asked).await?;
                if asked != [0, 0, 0, 8, 4, 210, 22, 47] {
                    return Ok(());
                }
                stream.write_all(b"S").await?;
                copy_bidirectional(&mut acceptor.accept(stream).await?, &mut TcpStream::connect(behind).await?).await.map(|_| ())
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_for_as_much_as_the_url_says() {
    let (schema, folder) = (Schema::migrated().await, tempfile::tempdir().unwrap());
    let (ours, other) = (authority("ours", folder.path()), authority("other", folder.path()));
    let (rest, database) = schema.url.rsplit_once('/').unwrap();
    let (user, server) = rest.rsplit_once('@').unwrap();
    let port = serve(&ours, server.to_owned()).await.port();
    let reached = async |host: &str, mode: &str, root: Option<&Authority>| {
        let root = root.map(|root| format!("&sslrootcert={}", root.file.display())).unwrap_or_default();
        connect(&format!("{user}@{host}:{port}/{database}?sslmode={mode}{root}"), &schema.name, 1)
            .await
            .map(drop)
            .map_err(|error| format!("{error:?}"))
    };
    let accepted = [
        ("localhost", "verify-full", Some(&ours)),
        ("127.0.0.1", "verify-ca", Some(&ours)),
        ("127.0.0.1", "require", Some(&ours)),
        ("127.0.0.1", "require", None),
        ("127.0.0.1", "prefer", None),
    ];
    for (host, mode, root) in accepted {
        assert_eq!(reached(host, mode, root).await, Ok(()), "{host} {mode}");
    }
    let refused = [
        ("127.0.0.1", "verify-full", Some(&ours), "NotValidForName"),
        ("localhost", "verify-full", Some(&other), "UnknownIssuer"),
        ("localhost", "verify-ca", Some(&other), "UnknownIssuer"),
        ("localhost", "require", Some(&other), "UnknownIssuer"),
        ("localhost", "verify-full", None, "UnknownIssuer"),
        ("localhost", "disable", None, ""),
    ];
    for (host, mode, root, why) in refused {
        let fault = reached(host, mode, root).await.expect_err(mode);
        assert!(fault.contains(why), "{host} {mode}: {fault}");
    }
}

/// As `openssl req -x509` makes it: one that could sign others, and is in no chain.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_have_the_very_certificate_that_is_named() {
    let (schema, folder) = (Schema::migrated().await, tempfile::tempdir().unwrap());
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (key, another) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let (certificate, other) = (params.self_signed(&key).unwrap(), params.self_signed(&another).unwrap());
    let file = folder.path().join("server.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    let (rest, database) = schema.url.rsplit_once('/').unwrap();
    let (user, server) = rest.rsplit_once('@').unwrap();
    let named = serve_as(certificate.der(), &key, server.to_owned()).await.port();
    let stranger = serve_as(other.der(), &another, server.to_owned()).await.port();
    let reached = async |host: &str, port: u16, mode: &str| {
        let url = format!("{user}@{host}:{port}/{database}?sslmode={mode}&sslrootcert={}", file.display());
        connect(&url, &schema.name, 1).await.map(drop).map_err(|error| format!("{error:?}"))
    };
    assert_eq!(reached("localhost", named, "verify-full").await, Ok(()));
    assert_eq!(reached("127.0.0.1", named, "verify-ca").await, Ok(()));
    assert!(reached("127.0.0.1", named, "verify-full").await.unwrap_err().contains("NotValidForName"));
    for mode in ["verify-full", "verify-ca"] {
        assert!(reached("localhost", stranger, mode).await.is_err(), "the same name, and another key");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let schema = Schema::migrated().await;
    assert!(connect(&format!("{}?sslmode=require", schema.url), &schema.name, 1).await.is_err());
    assert!(connect(&format!("{}?sslmode=prefer", schema.url), &schema.name, 1).await.is_ok());
}
