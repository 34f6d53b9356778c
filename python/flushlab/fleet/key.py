"""Key: what a machine needs to enter a fleet, and its certificate.

Fleet layer. The key is one file of mode 0600: Ray's token, and the certificate authority of this fleet. Ray
checks both sides of each connection, so each machine has a certificate for its own address, signed by that
authority. A key opens every machine of its fleet, as Ray runs any code: it never stands in arguments or logs.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from pathlib import Path

import msgspec

from flushlab import atomic
from flushlab.errors import UsageError

_DAYS = 365
_SKEW = datetime.timedelta(days=1)
"""Certificates begin a day early, for clocks that are behind."""


class FleetKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key of a fleet.

    Attributes:
        token: Ray's, RAY_AUTH_TOKEN.
        authority: certificate of the fleet's authority, PEM.
        authority_key: its private key, PEM.
    """

    token: str
    authority: str
    authority_key: str

    def __repr__(self) -> str:
        return "FleetKey(…)"


def new_key() -> FleetKey:
    """A key that nobody can guess, valid for a year."""
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("flushlab fleet", private.public_key(), private)
    return FleetKey(token=secrets.token_hex(32), authority=authority, authority_key=_pem(private))


def encode(key: FleetKey) -> bytes:
    """The content of a key file."""
    return msgspec.json.encode(key) + b"\n"


def parse(text: bytes, where: str) -> FleetKey:
    """A key from the content of its file; the error does not repeat it.

    Raises:
        UsageError: it is no key.
    """
    try:
        return msgspec.json.decode(text, type=FleetKey)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise UsageError(
            f"{where} holds no key of a fleet" if text.strip() else f"{where} is empty",
            hint="`flushlab fleet start` on the first machine prints the command that passes the key",
        ) from None


def write_identity(folder: Path, key: FleetKey, address: str) -> None:
    """Writes token, authority, certificate and private key for a machine's address, each of mode 0600."""
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(f"flushlab {address}", private.public_key(), key, address)
    for name, text in (
        ("token", key.token),
        ("authority.pem", key.authority),
        ("machine.pem", certificate),
        ("machine.key", _pem(private)),
    ):
        atomic.write(folder / name, text, mode=0o600)


def _signed(name: str, public: object, by: object, address: str = "") -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = by
    if isinstance(by, FleetKey):
        issuer = x509.load_pem_x509_certificate(by.authority.encode()).subject
        signer = serialization.load_pem_private_key(by.authority_key.encode(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=not address, path_length=None), critical=True)
    )
    if address:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def _pem(private: object) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    assert isinstance(private, ec.EllipticCurvePrivateKey)
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
