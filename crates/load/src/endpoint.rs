//! How a server is reached, and as whom.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// How long it may take from the first attempt to reach a server to the end of the login.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may be silent over an answer, unless its own limits are longer; above the default
/// innodb_lock_wait_timeout of 50 s, so that a lock wait ends as the server's error.
pub const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time that a server may be given to let us in.
const MAX_CONNECT_SECONDS: f64 = 3600.0;

/// How to reach a server (`flushlab.record.Endpoint`).
#[derive(Clone, Deserialize)]
pub struct Endpoint {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) socket: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    /// `caching_sha2_password` over plain TCP may take the server's RSA key unseen, as
    /// `--get-server-public-key` of MySQL's clients: who can put himself between could send his own and read
    /// the password.
    #[serde(default)]
    pub(crate) get_server_public_key: bool,
    /// LOAD DATA LOCAL may be run.
    #[serde(skip)]
    pub(crate) local_files: bool,
    /// How long connecting may take in all.
    #[serde(
        default = "connect_timeout",
        rename = "connect_timeout_s",
        deserialize_with = "timeout"
    )]
    pub(crate) connect_timeout: Duration,
}

fn connect_timeout() -> Duration {
    CONNECT_TIMEOUT
}

/// Seconds, above 0 and at most `MAX_CONNECT_SECONDS`.
fn timeout<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(input)?;
    if seconds > 0.0 && seconds <= MAX_CONNECT_SECONDS {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(serde::de::Error::custom("connect_timeout_s is out of range"))
}

impl fmt::Debug for Endpoint {
    /// Never shows the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("user", &self.user)
            .field("socket", &self.socket)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
