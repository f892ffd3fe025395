//! The signatures of tokens by `ring`, which TLS uses here anyway: `jsonwebtoken` comes with a choice of two other libraries or with none.
//!
//! Only verifying; nothing here signs.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use ring::{error::Unspecified, hmac};

static PROVIDER: CryptoProvider = CryptoProvider { signer_factory: no_signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

/// For this process, once; again it changes nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

struct Ring {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    // A public key must never be taken for a secret that both sides know.
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Ring { algorithm: *algorithm, key: key.clone() }))
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match self.algorithm {
            Algorithm::HS256 => self.secret(hmac::HMAC_SHA256, message, signature),
            Algorithm::HS384 => self.secret(hmac::HMAC_SHA384, message, signature),
            Algorithm::HS512 => self.secret(hmac::HMAC_SHA512, message, signature),
            Algorithm::ES256 => self.point(&ECDSA_P256_SHA256_FIXED, message, signature),
            Algorithm::ES384 => self.point(&ECDSA_P384_SHA384_FIXED, message, signature),
            Algorithm::EdDSA => self.point(&ED25519, message, signature),
            Algorithm::RS256 => self.rsa(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Algorithm::RS384 => self.rsa(&RSA_PKCS1_2048_8192_SHA384, message, signature),
            Algorithm::RS512 => self.rsa(&RSA_PKCS1_2048_8192_SHA512, message, signature),
            Algorithm::PS256 => self.rsa(&RSA_PSS_2048_8192_SHA256, message, signature),
            Algorithm::PS384 => self.rsa(&RSA_PSS_2048_8192_SHA384, message, signature),
            Algorithm::PS512 => self.rsa(&RSA_PSS_2048_8192_SHA512, message, signature),
            // One that a later release of the library adds.
            _ => Err(Unspecified),
        };
        verified.map_err(|Unspecified| signature::Error::new())
    }
}

impl Ring {
    fn bytes(&self) -> Result<&[u8], Unspecified> {
        self.key.try_get_as_bytes().map_err(|_| Unspecified)
    }

    /// In constant time.
    fn secret(&self, algorithm: hmac::Algorithm, message: &[u8], signature: &[u8]) -> Result<(), Unspecified> {
        hmac::verify(&hmac::Key::new(algorithm, self.bytes()?), message, signature)
    }

    fn point(&self, algorithm: &'static dyn VerificationAlgorithm, message: &[u8], signature: &[u8]) -> Result<(), Unspecified> {
        UnparsedPublicKey::new(algorithm, self.bytes()?).verify(message, signature)
    }

    fn rsa(&self, algorithm: &'static RsaParameters, message: &[u8], signature: &[u8]) -> Result<(), Unspecified> {
        match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => RsaPublicKeyComponents { n, e }.verify(algorithm, message, signature),
            DecodingKeyKind::SecretOrDer(der) => UnparsedPublicKey::new(algorithm, der).verify(message, signature),
        }
    }
}
