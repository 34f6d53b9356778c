//! Where connections go, and what carries them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::tls::Trust;
use crate::Error;

/// How a load asks for its transport: fields of `LoadSpec` and `ScriptSpec`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transport<'a> {
    /// `socket` or `tcp`.
    pub transport: &'a str,
    /// One of `SSL_MODES`.
    pub ssl_mode: &'a str,
    /// A file of certificates; empty if there is none.
    pub ssl_ca: &'a str,
}

/// MySQL's words. There is no `preferred`: a measurement must know what it measures.
const SSL_MODES: [&str; 4] = ["disabled", "required", "verify_ca", "verify_identity"];

/// Where connections go.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    /// A unix socket's path.
    Socket(String),
    /// Host and port.
    Tcp(String, u16),
    /// Host, port, and what makes the server's certificate acceptable.
    Tls(String, u16, Arc<Trust>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => f.write_str(path),
            Self::Tcp(host, port) | Self::Tls(host, port, _) => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Where `endpoint` is reached by that transport.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Usage`]: what was asked for contradicts itself, or a file cannot be read.
    pub fn of(endpoint: &Endpoint, asked: Transport<'_>) -> Result<Self, Error> {
        let trust = trust(asked)?;
        match (asked.transport, &endpoint.socket, &endpoint.host, endpoint.port) {
            ("socket", ..) if trust.is_some() => Err(Error::usage(
                "TLS goes over TCP, but the transport is socket",
            )
            .hint("choose the transport tcp, or the ssl_mode disabled: nobody can listen on a unix socket")),
            ("socket", Some(path), _, _) => Ok(Self::Socket(path.clone())),
            ("socket", None, _, _) => Err(Error::usage(
                "transport is socket, but the endpoint has no socket",
            )),
            ("tcp", _, Some(host), Some(port)) => Ok(match trust {
                None => Self::Tcp(host.clone(), port),
                Some(trust) => Self::Tls(host.clone(), port, Arc::new(trust)),
            }),
            ("tcp", ..) => Err(Error::usage(
                "transport is tcp, but the endpoint has no host and port",
            )),
            (other, ..) => Err(Error::usage(format!(
                "transport {other:?} is not known; there are socket and tcp"
            ))),
        }
    }
}

fn trust(asked: Transport<'_>) -> Result<Option<Trust>, Error> {
    match (asked.ssl_mode, asked.ssl_ca) {
        ("disabled", "") => Ok(None),
        ("required", "") => Trust::anybody().map(Some),
        ("disabled" | "required", _) => Err(Error::usage(format!(
            "ssl_ca is given, but the ssl_mode {} verifies no certificate",
            asked.ssl_mode
        ))
        .hint("choose the ssl_mode verify_ca or verify_identity")),
        ("verify_ca" | "verify_identity", "") => Err(Error::usage(format!(
            "the ssl_mode {} needs ssl_ca, a file of certificates to trust",
            asked.ssl_mode
        ))
        .hint("name the server's ca.pem, or /etc/ssl/certs/ca-certificates.crt for public authorities")),
        ("verify_ca", file) => Trust::signed_by(Path::new(file)).map(Some),
        ("verify_identity", file) => Trust::signed_by_and_named(Path::new(file)).map(Some),
        (other, _) => Err(Error::usage(format!(
            "ssl_mode {other:?} is not known; there are {}",
            SSL_MODES.join(", ")
        ))),
    }
}
