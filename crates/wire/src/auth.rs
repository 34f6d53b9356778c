//! Authentication plugins: pure functions from password and nonce to bytes.

use rand_core::OsRng;
use rsa::pkcs8::DecodePublicKey;
use rsa::{Oaep, RsaPublicKey};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::Error;

/// Length of a nonce (the "scramble") in every plugin here.
pub const NONCE: usize = 20;

/// An authentication plugin that flushlab speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`
    Native,
    /// `caching_sha2_password`
    CachingSha2,
}

impl Plugin {
    /// The plugin of that name, if it is spoken here.
    pub fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"mysql_native_password" => Some(Self::Native),
            b"caching_sha2_password" => Some(Self::CachingSha2),
            _ => None,
        }
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    /// The first answer to the server's nonce; empty for an empty password.
    pub fn scramble(self, password: &[u8], nonce: &[u8; NONCE]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Native => native_scramble(password, nonce).to_vec(),
            Self::CachingSha2 => caching_sha2_scramble(password, nonce).to_vec(),
        }
    }
}

/// `SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))`
/// (MySQL internals manual, "Secure Password Authentication").
fn native_scramble(password: &[u8], nonce: &[u8; NONCE]) -> [u8; 20] {
    let once = Sha1::digest(password);
    let mask = Sha1::new()
        .chain_update(nonce)
        .chain_update(Sha1::digest(once))
        .finalize();
    std::array::from_fn(|i| once[i] ^ mask[i])
}

/// `SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)`
/// (MySQL source, sql/auth/sha2_password.cc, "Scramble generator").
fn caching_sha2_scramble(password: &[u8], nonce: &[u8; NONCE]) -> [u8; 32] {
    let once = Sha256::digest(password);
    let mask = Sha256::new()
        .chain_update(Sha256::digest(once))
        .chain_update(nonce)
        .finalize();
    std::array::from_fn(|i| once[i] ^ mask[i])
}

/// The password for a full `caching_sha2_password` exchange on a channel that others could read:
/// NUL-terminated, XORed with the nonce, RSA-OAEP(SHA-1) under the server's public key.
///
/// # Errors
/// The key is not one, or the password does not fit it (more than 213 bytes for 2,048 bits).
pub fn encrypt_password(
    password: &[u8],
    nonce: &[u8; NONCE],
    public_key_pem: &[u8],
) -> Result<Vec<u8>, Error> {
    let pem = std::str::from_utf8(public_key_pem)
        .map_err(|_| Error::protocol("the server's public key is not PEM"))?;
    let key = RsaPublicKey::from_public_key_pem(pem.trim_matches(['\0', '\n', ' ']))
        .map_err(|error| Error::protocol(format!("the server's public key cannot be read: {error}")))?;
    let masked: Vec<u8> = password
        .iter()
        .chain(&[0])
        .zip(nonce.iter().cycle())
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    key.encrypt(&mut OsRng, Oaep::new::<Sha1>(), &masked)
        .map_err(|error| {
            Error::protocol(format!(
                "the password cannot be encrypted for the server: {error}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};
    use rsa::RsaPrivateKey;

    const NONCE_BYTES: &[u8; NONCE] =
        b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14";

    /// The server's side: it knows SHA1(SHA1(password)) and checks without the password.
    fn native_verifies(stored: &[u8], scramble: &[u8], nonce: &[u8]) -> bool {
        let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
        let once: Vec<u8> = scramble.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        Sha1::digest(once)[..] == *stored
    }

    #[test]
    fn a_native_scramble_convinces_a_server_that_stores_the_double_hash() {
        let stored = Sha1::digest(Sha1::digest(b"secret"));
        let scramble = Plugin::Native.scramble(b"secret", NONCE_BYTES);
        assert!(native_verifies(&stored, &scramble, NONCE_BYTES));
        let wrong = Plugin::Native.scramble(b"Secret", NONCE_BYTES);
        assert!(!native_verifies(&stored, &wrong, NONCE_BYTES));
    }

    #[test]
    fn a_sha2_scramble_convinces_a_server_that_caches_the_double_hash() {
        let cached = Sha256::digest(Sha256::digest(b"secret"));
        let scramble = Plugin::CachingSha2.scramble(b"secret", NONCE_BYTES);
        let mask = Sha256::new()
            .chain_update(cached)
            .chain_update(NONCE_BYTES)
            .finalize();
        let once: Vec<u8> = scramble.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(once), cached);
    }

    #[test]
    fn an_empty_password_has_an_empty_scramble() {
        assert!(Plugin::Native.scramble(b"", NONCE_BYTES).is_empty());
        assert!(Plugin::CachingSha2.scramble(b"", NONCE_BYTES).is_empty());
    }

    #[test]
    fn the_server_can_read_the_encrypted_password() {
        let private = RsaPrivateKey::new(&mut OsRng, 1024).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        let sent = encrypt_password(
            b"a password of more than twenty bytes",
            NONCE_BYTES,
            pem.as_bytes(),
        )
        .unwrap();
        let read = private.decrypt(Oaep::new::<Sha1>(), &sent).unwrap();
        let clear: Vec<u8> = read
            .iter()
            .zip(NONCE_BYTES.iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        assert_eq!(clear, b"a password of more than twenty bytes\0");
    }

    #[test]
    fn a_password_too_long_for_the_key_is_an_error() {
        let private = RsaPrivateKey::new(&mut OsRng, 512).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        assert!(encrypt_password(&[b'x'; 60], NONCE_BYTES, pem.as_bytes()).is_err());
    }

    #[test]
    fn what_is_not_a_key_is_a_protocol_error() {
        for key in [
            &b""[..],
            b"\xff\xfe",
            b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ] {
            assert!(matches!(
                encrypt_password(b"x", NONCE_BYTES, key),
                Err(Error::Protocol(_))
            ));
        }
    }
}
