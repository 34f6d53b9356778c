"""Reach: what is at an address, before Ray speaks to it: nobody, no TLS, another key, another version.

Fleet layer. Ray 2.60 waits for a minute, or ends the process, if nobody or somebody else answers. So the
connection and its TLS are tried first. Ray's list of nodes is read in a child process with a time limit. In a
fleet of this machine's own, the process that connects reads it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from flushlab.errors import ExtraMissing, FleetError, UsageError
from flushlab.fleet import PORT
from flushlab.version import __version__

_CONNECT_S = 5.0
_ALIVE_S = 2.0
_ANSWER_S = 30.0
_CERTIFICATE_HINTS = {
    9: "set this machine's clock: the certificate is not valid yet",
    10: "set this machine's clock; or stop the fleet, and start a new one: its certificates last a year",
    62: "use the address that `flushlab fleet start` there printed",
    64: "use the address that `flushlab fleet start` there printed",
}
"""By X509_V_ERR_* of OpenSSL's x509_vfy.h: not yet valid, expired, another host name, another address."""
_KEY_HINT = "pass the key of that fleet, as `flushlab fleet start` there printed"
_TOKEN_HINT = (
    "if flushlab did not start that Ray, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to a file with its"
    " token, or RAY_AUTH_TOKEN to the token"
)
OUTSIDE_HINT = "run this on a machine of the fleet: `flushlab fleet join` makes this machine one"
_UNREADABLE = "RAY_AUTH_TOKEN_PATH is set but"
"""Ray 2.60 aborts with these words."""


class Address(NamedTuple):
    """Of the first machine of a fleet."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class FleetNode(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, as Ray lists it; versions are empty where flushlab did not start it."""

    node_id: str
    name: str
    address: str
    is_head: bool
    flushlab: str = ""
    ray: str = ""
    python: str = ""


def takes_connections(address: Address) -> bool:
    """Whether somebody listens there, and answers soon."""
    try:
        socket.create_connection(address, timeout=_ALIVE_S).close()
    except OSError:
        return False
    return True


def require_ray() -> str:
    """Ray's version.

    Raises:
        ExtraMissing: it is not installed.
    """
    if find_spec("ray") is None:
        raise ExtraMissing(
            "a fleet needs Ray, which is not installed", hint="install it: pip install 'flushlab[fleet]'"
        )
    return metadata.version("ray")


def labels() -> dict[str, str]:
    """Versions for Ray's list of nodes; Ray takes letters, digits, `-`, `_` and `.` only."""
    found = {
        "flushlab": __version__,
        "flushlab-ray": require_ray(),
        "flushlab-python": platform.python_version(),
    }
    return {name: re.sub(r"[^\w.-]", "_", value) for name, value in found.items()}


def parse_address(text: str) -> Address:
    """An address from `HOST[:PORT]`, its host resolved.

    Raises:
        UsageError: it is none, or its host is unknown.
    """
    host, _, port = text.partition(":")
    number = int(port) if port.isdecimal() else PORT
    if not host or (port and not port.isdecimal()) or not 0 < number < 65536 or port.startswith("-"):
        raise UsageError(
            f"{text!r} is not an address of a fleet", hint=f"write HOST or HOST:PORT, such as 10.0.0.5:{PORT}"
        )
    try:
        found = socket.getaddrinfo(host, number, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # an empty or too long part of the name
        raise UsageError(
            f"the host {host!r} is unknown: {getattr(error, 'strerror', None) or error}",
            hint="name an IPv4 address or a host that has one",
        ) from None
    return Address(str(found[0][4][0]), number)


def nodes(address: Address, environment: Mapping[str, str], is_own: bool = False) -> tuple[FleetNode, ...]:
    """The living machines of the fleet at an address, by name.

    Args:
        address: of the fleet.
        environment: variables of Ray for it.
        is_own: this machine is in it. Then this process asks, and gets the variables.

    Raises:
        FleetError: nobody answers there, or no Ray, or one with another key, or this machine is not in it.
    """
    _require_answer(address, environment)
    variables = {**os.environ, **environment}
    if variables.get("RAY_USE_TLS") != "1" and _speaks_tls(address):
        raise FleetError(f"the fleet at {address} answers only machines that are in it", hint=OUTSIDE_HINT)
    answer = _asked_here(address, environment) if is_own else _asked(address, variables, environment)
    if "refused" in answer:
        if not _is_own(environment):
            raise FleetError(f"{address} refuses the token of this command", hint=_TOKEN_HINT)
        raise FleetError(f"{address} refuses the key of this machine", hint=_KEY_HINT)
    found = msgspec.convert(answer["nodes"], tuple[FleetNode, ...])
    return tuple(sorted(found, key=lambda one: (one.name, one.address)))


def _asked_here(address: Address, environment: Mapping[str, str]) -> Any:
    """Ray's list of nodes, read in this process."""
    os.environ.update(environment)
    from flushlab.fleet.nodes_main import listed

    try:
        return listed(str(address))
    except Exception as error:  # Ray raises RpcError, RaySystemError, …
        raise FleetError(
            f"Ray at {address} cannot be asked: {' '.join(str(error).split())}",
            hint="see `flushlab fleet status` on the first machine",
        ) from error


def _asked(address: Address, variables: Mapping[str, str], environment: Mapping[str, str]) -> Any:
    """Ray's list of nodes, read in a child process."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "flushlab.fleet.nodes_main", str(address)],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_S,
        )
    except subprocess.TimeoutExpired:
        raise FleetError(
            f"{address} takes connections, but is no Ray of a fleet",
            hint="check address and port: `flushlab fleet start` printed them",
        ) from None
    try:
        return json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode(errors="replace").strip()
        if _UNREADABLE in words:
            raise FleetError(
                f"the token for {address} cannot be read, or is empty: the file of RAY_AUTH_TOKEN_PATH",
                hint=_KEY_HINT if _is_own(environment) else _TOKEN_HINT,
            ) from None
        last = words.splitlines()[-1] if words else f"exit code {done.returncode}"
        raise FleetError(
            f"Ray at {address} cannot be asked: {last}",
            hint=f"check address and port; a Ray there needs the version {require_ray()}, as here",
        ) from None


def _speaks_tls(address: Address) -> bool:
    """Whether TLS is spoken there, whatever certificate is needed. Ray without TLS would wait for ever."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(address, timeout=_CONNECT_S) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _is_own(environment: Mapping[str, str]) -> bool:
    """Whether a fleet of flushlab's gave these variables, not the user."""
    return "RAY_AUTH_TOKEN_PATH" in environment


def _require_answer(address: Address, environment: Mapping[str, str]) -> None:
    try:
        with socket.create_connection(address, timeout=_CONNECT_S) as plain:
            if environment.get("RAY_USE_TLS") != "1":
                return
            context = ssl.create_default_context(cafile=environment["RAY_TLS_CA_CERT"])
            context.load_cert_chain(environment["RAY_TLS_SERVER_CERT"], environment["RAY_TLS_SERVER_KEY"])
            context.set_alpn_protocols(["h2"])
            with context.wrap_socket(plain, server_hostname=address.host):
                return
    except ssl.SSLCertVerificationError as error:
        hint = _CERTIFICATE_HINTS.get(error.verify_code, _KEY_HINT)
        raise FleetError(
            f"{address} is not trusted as one of the fleet of this key: {error.verify_message}", hint=hint
        ) from None
    except ssl.SSLError as error:
        raise FleetError(
            f"{address} is not of the fleet of this key: {error.reason or error}", hint=_KEY_HINT
        ) from None
    except TimeoutError:
        raise FleetError(
            f"{address} does not answer within {_CONNECT_S:.0f} s",
            hint="check the address, and that no firewall is between the machines",
        ) from None
    except OSError as error:
        raise FleetError(
            f"nobody answers at {address}: {error.strerror or error}",
            hint="start the fleet there first: flushlab fleet start --listen ADDRESS",
        ) from None


def require_same(found: tuple[FleetNode, ...], address: Address) -> None:
    """Refuses a head that runs other versions than this machine.

    Raises:
        FleetError: with both versions.
    """
    head = next((one for one in found if one.is_head), None)
    if head is None:
        raise FleetError(f"the fleet at {address} has no first machine", hint="start it again")
    own = labels()
    if not head.flushlab:
        raise FleetError(
            f"the Ray at {address} was not started by flushlab",
            hint="name its address by --fleet; only machines of `flushlab fleet start` are joined",
        )
    for what, there, here in (
        ("flushlab", head.flushlab, own["flushlab"]),
        ("Ray", head.ray, own["flushlab-ray"]),
        ("Python", head.python, own["flushlab-python"]),
    ):
        if there != here:
            raise FleetError(
                f"the first machine, {head.name}, runs {what} {there}, this one {here}",
                hint=f"install {what} of the same version on both",
            )
