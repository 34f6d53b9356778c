"""Connect: this process becomes a driver of a fleet, of flushlab's making or an existing Ray cluster.

Fleet layer. Ray has one connection per process. The process must run on a machine of the fleet.
"""

from __future__ import annotations

import atexit
import ipaddress
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from flushlab.errors import FleetError
from flushlab.fleet import local_node, reach
from flushlab.fleet.reach import Address, FleetNode

NAMESPACE = "flushlab"
_SAID = 300
_OTHER_VERSION = "Version mismatch"
"""Of Ray's exception, with both versions."""
_TRIES = "RAY_gcs_server_port_wait_time_s"
"""Ray 2.60 tries so often to reach the first machine, by default 20 times. A try on one that has just been
lost takes 41 s."""


class Connection(NamedTuple):
    """An open one: where, and the machines that were alive when it was opened."""

    address: Address
    nodes: tuple[FleetNode, ...]


def own_fleet() -> Address | None:
    """The fleet that this machine is in, if flushlab started its node."""
    record = local_node.read()
    return None if record is None or not record.is_alive else reach.parse_address(record.fleet)


def environment_for(address: Address) -> dict[str, str]:
    """Variables for a fleet: from this machine's node, or none for a cluster that somebody else started."""
    record = local_node.read()
    known = record is not None and record.is_alive and record.fleet == str(address)
    return local_node.environment(record if known else None)


@contextmanager
def connected(address: Address) -> Iterator[Connection]:
    """Connects to a fleet, and disconnects at the end.

    Raises:
        ExtraMissing: no Ray.
        FleetError: as `reach.nodes`; this machine is not in the fleet; Ray refuses the connection; this
            process has lost a fleet, whose connection Ray cannot close.
    """
    reach.require_ray()
    if _left_open:
        raise FleetError(
            f"this process was connected to the fleet at {_left_open[0]}, whose first machine was lost",
            hint="start a new process: Ray has one connection for each",
        )
    environment = environment_for(address)
    own = own_fleet()
    try:
        found = reach.nodes(address, environment, own == address)
    except FleetError as error:
        if own is None or own == address:
            raise
        raise FleetError(error.message, hint=f"this machine is in the fleet at {own}") from error
    if found and all(ipaddress.ip_address(one.address).is_loopback for one in found):
        # By default Ray would look for it at an address that others can reach, and wait for ever.
        environment = {**environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    if any(one.flushlab for one in found):
        reach.require_same(found, address)
    os.environ.update(environment)
    import ray

    ray.shutdown()
    _keep_quiet()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with _tried_once():
            # Ray knows this machine's node by its address; on loopback it would look for another one.
            ray.init(
                address=str(address),
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
            )
    except Exception as error:  # Ray raises RuntimeError, ValueError, ConnectionError, …
        reach.nodes(address, environment)  # raises its own error if the first machine is gone by now
        raise FleetError(
            f"Ray does not connect to {address}: {_last_line(error)}",
            hint="install the same Ray and Python here as there"
            if _OTHER_VERSION in str(error)
            else reach.OUTSIDE_HINT,
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray's ends the process without a word
    try:
        yield Connection(address, found)
    finally:
        if reach.takes_connections(address):
            ray.shutdown()
        else:  # Ray would wait for the first machine: for 15 minutes, if its network is gone
            atexit.unregister(ray.shutdown)
            _left_open.append(address)


_left_open: list[Address] = []


def is_left_open() -> bool:
    """Whether a connection was not closed: this process has to end by `os._exit`, or Ray 2.60 crashes."""
    return bool(_left_open)


@contextmanager
def _tried_once() -> Iterator[None]:
    """Lets Ray give up a first machine that does not answer after one try; what is started later tries on."""
    before = os.environ.get(_TRIES)
    os.environ[_TRIES] = before or "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TRIES]


def _keep_quiet() -> None:
    """Keeps Ray 2.60 from writing to stdout that a worker died, which log_to_driver=False does not."""
    worker: Any = import_module("ray._private.worker")
    worker.listen_error_messages = lambda _worker, _stopped: None


def _last_line(error: BaseException) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= _SAID else words[:_SAID] + "…"
