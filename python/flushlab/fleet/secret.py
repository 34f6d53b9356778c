"""Secret: a password that two machines of a fleet derive alike, so that it never travels.

Fleet layer.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from flushlab.errors import FleetError
from flushlab.fleet import local_node


def password(nonce: str) -> str:
    """The password for a nonce: it takes the fleet's token, which every machine of it has.

    Raises:
        FleetError: no fleet of flushlab's runs on this machine.
    """
    digest = hmac.new(_read("token").strip().encode(), f"load {nonce}".encode(), hashlib.sha256)
    return f"aZ9-{digest.hexdigest()}"


def identity() -> str:
    """Private key and certificate of this machine's address, PEM.

    Raises:
        FleetError: as `password`.
    """
    return _read("machine.key") + _read("machine.pem")


def authority() -> Path:
    """File of the certificate that signed those of all machines."""
    return local_node.fleet_folder() / "authority.pem"


def _read(name: str) -> str:
    try:
        return (local_node.fleet_folder() / name).read_text()
    except FileNotFoundError:
        raise FleetError(
            "no fleet that others can reach runs on this machine",
            hint="start it with `flushlab fleet start --listen ADDRESS`, or join one",
        ) from None
