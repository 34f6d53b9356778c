//! Which server certificates are accepted, and what went wrong when TLS does not come about.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, Resumption, WebPkiServerVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, PeerIncompatible, RootCertStore,
    SignatureScheme,
};

use crate::{Error, ErrorKind};

/// What makes a server's certificate acceptable.
#[derive(Clone)]
pub(crate) struct Trust {
    config: Arc<ClientConfig>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Any certificate: nobody reads along, but who answers is not known.
    pub fn anybody() -> Result<Self, Error> {
        Self::verified_by(Arc::new(Chain {
            roots: None,
            provider: provider(),
        }))
    }

    /// A certificate signed by one of those in `file`, whatever name it bears.
    pub fn signed_by(file: &Path) -> Result<Self, Error> {
        Self::verified_by(Arc::new(Chain {
            roots: Some(roots(file)?),
            provider: provider(),
        }))
    }

    /// A certificate signed by one of those in `file` that bears the name by which the server is reached.
    pub fn signed_by_and_named(file: &Path) -> Result<Self, Error> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(file)?), provider())
            .build()
            .map_err(unusable)?;
        Self::verified_by(verifier)
    }

    fn verified_by(verifier: Arc<dyn ServerCertVerifier>) -> Result<Self, Error> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        // As the servers' own clients: every connection shakes hands in full.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// A session with the server of that name or address, nothing sent yet.
    pub fn session(&self, host: &str) -> Result<ClientConnection, Error> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::usage(format!("{host:?} is no name that a certificate can bear")))?;
        ClientConnection::new(self.config.clone(), name).map_err(unusable)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unusable(error: impl fmt::Display) -> Error {
    Error::usage(format!("TLS cannot be set up: {error}"))
}

fn roots(file: &Path) -> Result<RootCertStore, Error> {
    let unreadable = |error: &dyn fmt::Display| {
        Error::usage(format!("ssl_ca {}: {error}", file.display()))
            .hint("it takes a PEM file of certificates, as a server's ca.pem")
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() {
        return Err(unreadable(&"no certificate is in it"));
    }
    Ok(roots)
}

/// Verifies who signed a certificate, if anybody must have, and that the server holds its key; not its name.
#[derive(Debug)]
struct Chain {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Chain {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A server that offers no TLS.
pub(crate) fn not_offered(version: &str) -> Error {
    let hint = if speaks_old_tls_only(version) {
        OLD_TLS
    } else {
        "give the server a certificate (ssl_ca, ssl_cert, ssl_key), or choose the ssl_mode disabled"
    };
    Error::new(ErrorKind::Server, format!("the server ({version}) offers no TLS")).hint(hint)
}

/// A TLS handshake that failed.
pub(crate) fn failed(version: &str, error: &io::Error) -> Error {
    let reason = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (what, hint) = match reason {
        Some(rustls::Error::InvalidCertificate(why)) => (
            format!("its certificate is not accepted: {why}"),
            "verify_identity wants the host's name or address among the certificate's alternative names and \
             its signer in ssl_ca; verify_ca only the signer; required neither",
        ),
        Some(
            rustls::Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            )
            | rustls::Error::AlertReceived(AlertDescription::ProtocolVersion),
        ) => ("it speaks neither TLS 1.2 nor 1.3".to_owned(), OLD_TLS),
        Some(rustls::Error::AlertReceived(AlertDescription::HandshakeFailure))
            if !speaks_old_tls_only(version) =>
        {
            ("it shares no cipher suite with us".to_owned(), OLD_OPENSSL)
        }
        _ if speaks_old_tls_only(version) => (format!("it speaks no TLS 1.2 ({error})"), OLD_TLS),
        _ => (
            error.to_string(),
            "the server's error log may say more; the ssl_mode disabled does without TLS",
        ),
    };
    let message = format!("no TLS with the server ({version}): {what}");
    Error::new(ErrorKind::Server, message).hint(hint)
}

const OLD_TLS: &str =
    "MySQL before 5.7.28 speaks TLS 1.1 at most, which is insecure and not spoken here: choose \
                       the ssl_mode disabled, or a newer server";

const OLD_OPENSSL: &str = "keys are exchanged by ECDHE here, which servers built with OpenSSL 1.0 (MySQL 8.0.15) do not \
                           offer, nor those whose ssl_cipher leaves it out: choose the ssl_mode disabled, or a \
                           newer server";

/// Whether a server of that version may know nothing newer than TLS 1.1: MySQL's community builds had
/// yaSSL before 5.7.28 (release notes of 5.7.28, "Packaging").
fn speaks_old_tls_only(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse().ok());
    let mut next = || numbers.next().unwrap_or(u32::MAX);
    !version.contains("MariaDB") && [next(), next(), next()] < [5, 7, 28]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mysql_before_5_7_28_is_bound_to_old_tls() {
        for (version, old) in [
            ("5.7.22-log", true),
            ("5.6.51", true),
            ("5.7.28", false),
            ("8.0.15", false),
            ("9.7.4-2", false),
            ("10.11.19-MariaDB", false),
            ("5.5.68-MariaDB", false),
            ("", false),
        ] {
            assert_eq!(speaks_old_tls_only(version), old, "{version}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let file = std::env::temp_dir().join(format!("flushlab-no-ca-{}", std::process::id()));
        std::fs::write(&file, "nothing").unwrap();
        let error = Trust::signed_by(&file).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("no certificate is in it"), "{error}");
        let absent = Trust::signed_by_and_named(&file).unwrap_err();
        assert!(absent.message.contains("flushlab-no-ca-"), "{absent}");
    }
}
