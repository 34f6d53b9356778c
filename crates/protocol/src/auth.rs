//! Authentication plugins: pure functions from password and nonce to bytes.

use ed25519_dalek::hazmat::{raw_sign, ExpandedSecretKey};
use ed25519_dalek::VerifyingKey;
use rand_core::OsRng;
use rsa::pkcs8::DecodePublicKey;
use rsa::{Oaep, RsaPublicKey};
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};

use crate::Error;

/// Length of the nonce (the "scramble") in a greeting, and of most plugins.
pub const NONCE: usize = 20;

/// Length of the nonce of `client_ed25519`.
pub const ED25519_NONCE: usize = 32;

/// An authentication plugin that flushlab speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`
    Native,
    /// `caching_sha2_password`
    CachingSha2,
    /// `client_ed25519` (MariaDB)
    Ed25519,
    /// `mysql_clear_password`
    Clear,
}

impl Plugin {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Native, Self::CachingSha2, Self::Ed25519, Self::Clear];

    /// The plugin of that name, if it is spoken here.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|plugin| plugin.name().as_bytes() == name)
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Ed25519 => "client_ed25519",
            Self::Clear => "mysql_clear_password",
        }
    }

    /// The first answer to the server's nonce; what follows the nonce is of no account (a NUL).
    ///
    /// # Errors
    /// The nonce is too short for the plugin.
    pub fn answer(self, password: &[u8], nonce: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(match self {
            Self::Native | Self::CachingSha2 if password.is_empty() => Vec::new(),
            Self::Native => native_scramble(password, self.nonce(nonce)?).to_vec(),
            Self::CachingSha2 => caching_sha2_scramble(password, self.nonce(nonce)?).to_vec(),
            Self::Ed25519 => ed25519_signature(password, self.nonce(nonce)?).to_vec(),
            Self::Clear => [password, &[0]].concat(),
        })
    }

    fn nonce<const N: usize>(self, nonce: &[u8]) -> Result<&[u8; N], Error> {
        nonce.first_chunk().ok_or_else(|| {
            Error::protocol(format!(
                "the server's nonce for {} has {} bytes; {N} are due",
                self.name(),
                nonce.len()
            ))
        })
    }
}

/// Signs the nonce with the key that SHA-512 makes of the password, whatever its length; Ed25519 proper
/// makes it of 32 random bytes (MariaDB source, plugin/auth_ed25519/ref10/sign.c).
fn ed25519_signature(password: &[u8], nonce: &[u8; ED25519_NONCE]) -> [u8; 64] {
    let key = ExpandedSecretKey::from_bytes(&Sha512::digest(password).into());
    raw_sign::<Sha512>(&key, nonce, &VerifyingKey::from(&key)).to_bytes()
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
        let scramble = Plugin::Native.answer(b"secret", NONCE_BYTES).unwrap();
        assert!(native_verifies(&stored, &scramble, NONCE_BYTES));
        let wrong = Plugin::Native.answer(b"Secret", NONCE_BYTES).unwrap();
        assert!(!native_verifies(&stored, &wrong, NONCE_BYTES));
    }

    #[test]
    fn a_sha2_scramble_convinces_a_server_that_caches_the_double_hash() {
        let cached = Sha256::digest(Sha256::digest(b"secret"));
        let scramble = Plugin::CachingSha2.answer(b"secret", NONCE_BYTES).unwrap();
        let mask = Sha256::new()
            .chain_update(cached)
            .chain_update(NONCE_BYTES)
            .finalize();
        let once: Vec<u8> = scramble.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(once), cached);
    }

    #[test]
    fn an_ed25519_signature_convinces_a_server_that_stores_the_public_key() {
        // MariaDB knowledge base, "Authentication Plugin - ed25519": the stored key of "secret", which is
        // ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY in base 64.
        const STORED: &[u8; 32] = b"\x64\x88\x14\x44\x45\x20\xe4\xf5\x60\x43\xa2\xec\x92\x15\xe6\x3b\
                                    \xe7\x99\x2d\x2d\x27\x0b\xc6\xde\xe8\x73\xe3\x61\x64\x78\x60\x96";
        let nonce: Vec<u8> = (0..32).collect();
        let signature = Plugin::Ed25519.answer(b"secret", &nonce).unwrap();
        let signature = ed25519_dalek::Signature::from_slice(&signature).unwrap();
        let stored = VerifyingKey::from_bytes(STORED).unwrap();
        assert!(stored.verify_strict(&nonce, &signature).is_ok());
        assert!(stored.verify_strict(&nonce[1..], &signature).is_err());
    }

    #[test]
    fn a_nonce_too_short_for_its_plugin_is_a_protocol_error() {
        for (plugin, length) in [
            (Plugin::Native, 19),
            (Plugin::CachingSha2, 19),
            (Plugin::Ed25519, 31),
        ] {
            assert!(matches!(
                plugin.answer(b"secret", &vec![7; length]),
                Err(Error::Protocol(_))
            ));
            assert!(plugin.answer(b"secret", &vec![7; length + 1]).is_ok());
        }
    }

    #[test]
    fn an_empty_password_has_an_empty_scramble() {
        assert_eq!(Plugin::Native.answer(b"", NONCE_BYTES), Ok(vec![]));
        assert_eq!(Plugin::CachingSha2.answer(b"", NONCE_BYTES), Ok(vec![]));
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
