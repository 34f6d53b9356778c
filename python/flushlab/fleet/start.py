"""Start and stop: Ray on this machine, as the first of a fleet or as one that joins.

Fleet layer. `ray start` runs under a keeper. Without an address to listen on, everything is on loopback.
With one, Ray listens on all addresses of the machine, whatever address it is given (Ray 2.60): TLS with
certificates on both sides, and the token, keep others out.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.errors import FleetError, FlushlabError, PortTaken, UsageError
from flushlab.fleet import PORT, connect, local_node
from flushlab.fleet import key as keys
from flushlab.fleet.connect import FleetAddress
from flushlab.fleet.local_node import MARK, NodeRecord
from flushlab.machine import ownership
from flushlab.process.identity import machine, myself, world

LOOPBACK = "127.0.0.1"
STORE_BYTES = 256 << 20
"""Ray's object store on each machine, in /dev/shm: some chunks of a file on their way, and records."""
_READY_S = 90.0
_ASK_S = 10.0
_STARTED = "Ray runtime started."


def start(listen: str | None = None, port: int = PORT, name: str | None = None) -> NodeRecord:
    connect.require_ray()
    address = LOOPBACK if listen is None else _own_address(listen)
    with local_node.locked():
        _require_none()
        _require_free("" if listen else address, port)
        keys.write_identity(local_node.fleet_folder(), keys.new_token(), address)
        fleet = FleetAddress(address, port)
        return _start("head", fleet, address, ["--head", f"--port={port}", "--no-monitor"], name)


def join(fleet: FleetAddress, key: str, listen: str | None = None, name: str | None = None) -> NodeRecord:
    connect.require_ray()
    if ipaddress.ip_address(fleet.host).is_loopback:
        raise UsageError(
            f"{fleet} is this machine's own loopback",
            hint="start the fleet with --listen, and name that address",
        )
    address = _own_address(listen) if listen else _towards(fleet)
    with local_node.locked():
        _require_none()
        folder = local_node.fleet_folder()
        try:
            keys.write_identity(folder, key, address)
            found = connect.nodes(fleet, local_node.variables(folder, listens=True))
            connect.require_same(found, fleet)
            if any(one.address == address for one in found):
                raise FleetError(
                    f"the fleet at {fleet} has a machine of the address {address} already",
                    hint="name another address of this machine by --listen",
                )
        except BaseException:
            local_node.forget()
            raise
        return _start("member", fleet, address, [f"--address={fleet}"], name)


def _start(
    role: Literal["head", "member"], fleet: FleetAddress, address: str, words: list[str], name: str | None
) -> NodeRecord:
    state = local_node.fleet_folder()
    token = ownership.new_token()
    # Ray's sockets lie below it, and their path must not exceed 107 bytes, unix(7).
    folder = (
        Path(tempfile.gettempdir() if len(tempfile.gettempdir()) < 20 else "/tmp")
        / f"flushlab-fleet-{token[:8]}"
    )
    draft = NodeRecord(
        role=role,
        fleet=str(fleet),
        address=address,
        listens=address != LOOPBACK,
        token=token,
        world=world(),
        machine=machine(),
        keeper=myself(),
        folder=str(folder),
    )
    ownership.make(str(folder), {"what": "files of Ray", "name": folder.name, "token": token})
    # Ray opens its folder to everybody, so it gets one below ours.
    # Without --num-cpus=0, Ray starts idle workers, one for each CPU, when a driver connects.
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *words),
        *("--node-ip-address", address, "--node-name", name or socket.gethostname()),
        *("--labels", ",".join(f"{key}={value}" for key, value in connect.labels().items())),
        *("--temp-dir", str(folder / "r"), "--object-store-memory", str(STORE_BYTES)),
        *("--num-cpus=0", "--min-worker-port=0", "--max-worker-port=0", "--include-log-monitor=false"),
        *(["--include-dashboard=false"] if role == "head" else []),
    ]
    log, home = state / "ray.log", os.environ.get("FLUSHLAB_HOME")  # which the keeper, elsewhere, needs whole
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        keeper = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "flushlab.fleet.keeper_main",
                msgspec.json.encode(draft).decode(),
                *command,
            ],
            env={
                **os.environ,
                **({"FLUSHLAB_HOME": str(Path(home).expanduser().absolute())} if home else {}),
                **local_node.variables(state, listens=draft.listens),
                MARK: token,
            },
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_ready(keeper, log)
    except BaseException:
        with suppress(ProcessLookupError):
            keeper.terminate()
        local_node.stop()
        ownership.remove(str(folder), token=token)
        raise
    record = local_node.read()
    assert record is not None, "the keeper writes it before it starts Ray"
    return record


def _await_ready(keeper: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if _STARTED in log.read_text(errors="replace"):
            return
        if keeper.poll() is not None:
            break
        time.sleep(0.1)
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    reason = said[-1].strip() if said else "it printed nothing"
    raise FleetError(f"Ray did not start: {reason}", hint=f"its output is in {log}")


def _require_none() -> None:
    record = local_node.read()
    if record is None:
        return
    if not record.is_alive:
        local_node.stop()  # the machine went down, or the keeper was killed
        return
    what = "the first machine of" if record.role == "head" else "in"
    raise FleetError(
        f"this machine is {what} the fleet at {record.fleet} already",
        hint="`flushlab fleet status` shows it; `flushlab fleet stop` ends it here",
    )


def _require_free(host: str, port: int) -> None:
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise PortTaken(
            f"port {port} cannot be used: {os.strerror(error.errno or 0)}", hint="choose another by --port"
        ) from None


def _own_address(text: str) -> str:
    address = connect.parse_address(text if ":" not in text else "").host if text else ""
    is_shared = bool(address) and not ipaddress.ip_address(address).is_unspecified
    with socket.socket() as tried:
        try:
            tried.bind((address, 0))
        except OSError:
            is_shared = False
    if not is_shared or ipaddress.ip_address(address).is_loopback:
        raise UsageError(
            f"--listen {text}: not an address of this machine that others can reach",
            hint="`ip -brief address` lists the addresses; without --listen, the fleet is on loopback",
        )
    return address


def _towards(fleet: FleetAddress) -> str:
    """No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.connect(fleet)
        except OSError as error:
            raise FleetError(
                f"there is no way to {fleet}: {error.strerror}", hint="check the network of this machine"
            ) from None
        return str(tried.getsockname()[0])


def stop(progress: Callable[[str], None]) -> NodeRecord | None:
    """A machine that cannot be asked ends by itself: its Ray gives up 60 s after the first one is gone."""
    with local_node.locked():
        record = local_node.read()
        if record is not None and record.role == "head" and record.is_alive and record.listens:
            try:
                _ask_members(record)
            except FlushlabError as error:
                progress(f"the other machines cannot be asked, and end within a minute: {error}")
        return local_node.stop()


def _ask_members(record: NodeRecord) -> None:
    with connect.connected(connect.parse_address(record.fleet)) as nodes:
        import ray

        calls = [
            connect.task_on(node.id, local_node.ask_to_stop).remote() for node in nodes if not node.is_head
        ]
        with suppress(ray.exceptions.RayError):
            ray.wait(calls, num_returns=len(calls), timeout=_ASK_S)
