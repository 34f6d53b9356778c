"""Connect: this process becomes a driver of a fleet, of flushlab's making or an existing Ray cluster.

Fleet layer. Ray has one connection per process, and the process must run on a machine of the fleet.

Ray 2.60 waits for a minute, or ends the process, if nobody or somebody else answers at an address. So the
connection and its TLS are tried first, and Ray's list of nodes is read in a child process with a time limit.
"""

from __future__ import annotations

import atexit
import ipaddress
import json
import os
import platform
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from flushlab.errors import ExtraMissing, FleetError, UsageError
from flushlab.fleet import PORT, local_node
from flushlab.version import __version__

NAMESPACE = "flushlab"
OUTSIDE_HINT = "run this on a machine of the fleet: `flushlab fleet join` makes this machine one"
_CONNECT_S = 5.0
_ALIVE_S = 2.0
_ANSWER_S = 30.0
_SAID = 300
_OTHER_VERSION = "Version mismatch"
"""Of Ray's exception, with both versions."""
_UNREADABLE = "RAY_AUTH_TOKEN_PATH is set but"
"""Ray 2.60 aborts with these words."""
_TRIES = "RAY_gcs_server_port_wait_time_s"
"""Ray 2.60 tries so often to reach the first machine, by default 20 times. A try on one that has just been
lost takes 41 s."""
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


class FleetAddress(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class FleetNode(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    address: str
    is_head: bool = False
    flushlab: str = ""
    ray: str = ""
    python: str = ""


def require_ray() -> str:
    if find_spec("ray") is None:
        raise ExtraMissing(
            "a fleet needs Ray, which is not installed", hint="install it: pip install 'flushlab[fleet]'"
        )
    return metadata.version("ray")


def labels() -> dict[str, str]:
    """Ray takes letters, digits, `-`, `_` and `.` only."""
    found = {
        "flushlab": __version__,
        "flushlab-ray": require_ray(),
        "flushlab-python": platform.python_version(),
    }
    return {name: re.sub(r"[^\w.-]", "_", value) for name, value in found.items()}


def parse_address(text: str) -> FleetAddress:
    host, _, port = text.partition(":")
    number = int(port) if port.isdecimal() else PORT
    if not host or (port and not port.isdecimal()) or not 0 < number < 65536:
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
    return FleetAddress(str(found[0][4][0]), number)


def takes_connections(address: FleetAddress) -> bool:
    try:
        socket.create_connection(address, timeout=_ALIVE_S).close()
    except OSError:
        return False
    return True


def own_fleet() -> FleetAddress | None:
    record = local_node.read()
    return None if record is None or not record.is_alive else parse_address(record.fleet)


def environment_for(address: FleetAddress) -> dict[str, str]:
    record = local_node.read()
    if record is None or not record.is_alive or record.fleet != str(address):
        return {"RAY_USAGE_STATS_ENABLED": "0"}
    return local_node.variables(local_node.fleet_folder(), listens=record.listens)


@contextmanager
def connected(address: FleetAddress) -> Iterator[tuple[FleetNode, ...]]:
    """Raises FleetError also if this process has lost a fleet, whose connection Ray cannot close."""
    require_ray()
    if _left_open:
        raise FleetError(
            f"this process was connected to the fleet at {_left_open[0]}, whose first machine was lost",
            hint="start a new process: Ray has one connection for each",
        )
    environment = environment_for(address)
    try:
        found = nodes(address, environment)
    except FleetError as error:
        own = own_fleet()
        if own is None or own == address:
            raise
        raise FleetError(error.message, hint=f"this machine is in the fleet at {own}") from error
    if found and all(ipaddress.ip_address(node.address).is_loopback for node in found):
        # By default Ray would look for it at an address that others can reach, and wait for ever.
        environment = {**environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    if any(node.flushlab for node in found):
        require_same(found, address)
    os.environ.update(environment)
    import ray

    ray.shutdown()
    _keep_quiet()
    before = signal.getsignal(signal.SIGTERM)
    tries = os.environ.get(_TRIES)
    os.environ[_TRIES] = tries or "1"
    try:
        # Ray knows this machine's node by its address; on loopback it would look for another one.
        ray.init(
            address=str(address),
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
            configure_logging=False,
        )
    except Exception as error:  # Ray raises RuntimeError, ValueError, ConnectionError, …
        nodes(address, environment)  # raises its own error if the first machine is gone by now
        words = " ".join(str(error).split()) or type(error).__name__
        raise FleetError(
            f"Ray does not connect to {address}: {words[:_SAID]}{'…' * (len(words) > _SAID)}",
            hint="install the same Ray and Python here as there"
            if _OTHER_VERSION in str(error)
            else OUTSIDE_HINT,
        ) from error
    finally:  # what is started later tries on
        if tries is None:
            del os.environ[_TRIES]
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray's ends the process without a word
    try:
        yield found
    finally:
        if takes_connections(address):
            ray.shutdown()
        else:  # Ray would wait for the first machine: for 15 minutes, if its network is gone
            atexit.unregister(ray.shutdown)
            _left_open.append(address)


_left_open: list[FleetAddress] = []


def is_left_open() -> bool:
    """Then this process has to end by `os._exit`, or Ray 2.60 crashes."""
    return bool(_left_open)


def _keep_quiet() -> None:
    """Keeps Ray 2.60 from writing to stdout that a worker died, which log_to_driver=False does not."""
    worker: Any = import_module("ray._private.worker")
    worker.listen_error_messages = lambda _worker, _stopped: None


def task_on(node_id: str, work: Callable[..., object]) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return ray.remote(num_cpus=0, max_retries=0)(work).options(scheduling_strategy=where)


def nodes(address: FleetAddress, environment: Mapping[str, str]) -> tuple[FleetNode, ...]:
    _require_answer(address, environment)
    is_own = "RAY_AUTH_TOKEN_PATH" in environment  # or the user gave the variables
    try:
        done = subprocess.run(
            [sys.executable, "-m", "flushlab.fleet.nodes_main", str(address)],
            env={**os.environ, **environment},
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
        answer = json.loads(done.stdout)
    except ValueError:
        words = done.stderr.decode(errors="replace").strip()
        if _UNREADABLE in words:
            raise FleetError(
                f"the token for {address} cannot be read, or is empty: the file of RAY_AUTH_TOKEN_PATH",
                hint=_KEY_HINT if is_own else _TOKEN_HINT,
            ) from None
        last = words.splitlines()[-1] if words else f"exit code {done.returncode}"
        raise FleetError(
            f"Ray at {address} cannot be asked: {last}",
            hint=f"check address and port; a Ray there needs the version {require_ray()}, as here",
        ) from None
    if "refused" in answer:
        raise FleetError(
            f"{address} refuses the {'key of this machine' if is_own else 'token of this command'}",
            hint=_KEY_HINT if is_own else _TOKEN_HINT,
        )
    found = msgspec.convert(answer["nodes"], list[FleetNode])
    return tuple(sorted(found, key=lambda node: (node.name, node.address)))


def _require_answer(address: FleetAddress, environment: Mapping[str, str]) -> None:
    own_tls = environment.get("RAY_USE_TLS") == "1"
    context = ssl.create_default_context(cafile=environment["RAY_TLS_CA_CERT"] if own_tls else None)
    context.set_alpn_protocols(["h2"])
    if own_tls:
        context.load_cert_chain(environment["RAY_TLS_SERVER_CERT"], environment["RAY_TLS_SERVER_KEY"])
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    speaks_tls = False
    try:
        plain = socket.create_connection(address, timeout=_CONNECT_S)
        with plain, suppress(*() if own_tls else (OSError,)):
            context.wrap_socket(plain, server_hostname=address.host).close()
            speaks_tls = True
    except ssl.SSLCertVerificationError as error:
        raise FleetError(
            f"{address} is not trusted as one of the fleet of this key: {error.verify_message}",
            hint=_CERTIFICATE_HINTS.get(error.verify_code, _KEY_HINT),
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
    if speaks_tls and "1" not in (environment.get("RAY_USE_TLS"), os.environ.get("RAY_USE_TLS")):
        # Ray without TLS would wait for ever, whatever certificate is needed.
        raise FleetError(f"the fleet at {address} answers only machines that are in it", hint=OUTSIDE_HINT)


def require_same(found: tuple[FleetNode, ...], address: FleetAddress) -> None:
    head = next((node for node in found if node.is_head), None)
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
