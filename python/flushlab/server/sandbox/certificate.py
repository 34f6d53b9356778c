"""Certificate: a key and a self-signed certificate for a server that would make its own at every start.

Server layer. MariaDB makes an RSA key of 4096 bits whenever it starts without one, since 11.4 (MDEV-31856):
11.8.9 computes for 1.3 to 2 s at a start, and for 0.1 s without that. Clients take this certificate as they
take that one: it is as unknown to them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flushlab.build import Build

_SINCE = (11, 4)
_VALID = timedelta(days=3650)


def makes_its_own(build: Build) -> bool:
    """Whether a build makes a key at every start."""
    return build.flavor == "mariadb" and build.version >= _SINCE


def self_signed() -> str:
    """A new key and its certificate, in PEM; on the curve P-256, which takes no time to find."""
    from cryptography import x509  # 0.05 s, for few builds
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flushlab")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return (
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem)
    ).decode()
