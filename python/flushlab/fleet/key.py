"""Key: what a machine needs to enter a fleet: Ray's token. Certificates are made from it.

Fleet layer. Ray checks the token, and with RAY_USE_TLS certificates on both sides of each connection, each
for the address of its machine; it makes neither. All machines derive the same private key from the token. So
a machine signs a certificate for itself, the others trust it, and only the token has to reach a machine.
Whoever has the token can run any program on every machine: it never stands in arguments or logs.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import re
import secrets
from pathlib import Path

from flushlab import atomic
from flushlab.errors import FleetError, UsageError
from flushlab.fleet.local_node import fleet_folder

_DAYS = 365
_SKEW = datetime.timedelta(days=1)
"""Certificates begin a day early, for clocks that are behind."""


def new_token() -> str:
    return secrets.token_hex(32)


def parse(text: bytes, where: str) -> str:
    """The error does not repeat the content."""
    if re.fullmatch(rb"\s*[0-9a-f]{64}\s*", text):
        return text.decode().strip()
    raise UsageError(
        f"{where} holds no key of a fleet" if text.strip() else f"{where} is empty",
        hint="`flushlab fleet start` on the first machine prints the command that passes the key",
    )


def write_identity(folder: Path, token: str, address: str) -> None:
    """All files have mode 0600."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    curve, now = ec.SECP256R1(), datetime.datetime.now(datetime.UTC)
    number = int.from_bytes(hashlib.sha512(f"flushlab fleet {token}".encode()).digest())
    private = ec.derive_private_key(number % (curve.group_order - 1) + 1, curve)

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"flushlab {name}")])

    def certificate(name: str, extension: x509.ExtensionType, *, critical: bool) -> str:
        made = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("fleet"))
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(extension, critical=critical)
            .sign(private, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM).decode()

    authority = x509.BasicConstraints(ca=True, path_length=None)
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for name, text in (
        ("key", token),
        ("authority.pem", certificate("fleet", authority, critical=True)),
        ("machine.pem", certificate(address, own, critical=False)),
        ("machine.key", pem.decode()),
    ):
        atomic.write(folder / name, text, mode=0o600)


def identity() -> str:
    try:
        return "".join((fleet_folder() / name).read_text() for name in ("machine.key", "machine.pem"))
    except FileNotFoundError:
        raise FleetError(
            "no fleet that others can reach runs on this machine",
            hint="start it with `flushlab fleet start --listen ADDRESS`, or join one",
        ) from None


def authority() -> Path:
    return fleet_folder() / "authority.pem"
