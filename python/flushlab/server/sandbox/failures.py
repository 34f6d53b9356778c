"""Failures: the error that fits an end that nobody asked for, by what the server's log says about it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress

from flushlab.build import Build
from flushlab.build.inspect import library_in
from flushlab.errors import (
    FlushlabError,
    LibraryMissing,
    NoMemory,
    NoSpace,
    PortTaken,
    ServerDied,
    StartFailed,
    UsageError,
)
from flushlab.record import Endpoint, Value
from flushlab.server.sandbox import log
from flushlab.server.sandbox.ports import PORT_HINT

_ITS_PORT = "tcp/ip port"
_SPACE_HINT = "make room, or choose another place with --data-root"


def start_failed(
    build: Build, endpoint: Endpoint, settings: Mapping[str, Value], said: str, how: str
) -> FlushlabError:
    what = f"the server {build.name} {how}"
    if (found := shortage(what, endpoint, said)) is not None:
        return found
    refusal = log.refusal_from_log(said, settings)
    return StartFailed(f"{what}; its log says:\n{log.digest(said)}", refusal=refusal)


def shortage(what: str, endpoint: Endpoint, said: str) -> FlushlabError | None:
    """What this machine lacked, by the log of a server; None: nothing that it tells of."""
    if (line := log.port_taken(said)) is not None:
        if _ITS_PORT not in line.lower():  # one of those that nodes of a cluster have besides
            return PortTaken(f"{what}: {line}", hint="stop the program that listens there")
        return PortTaken(f"port {endpoint.port} on {endpoint.host} is in use", hint=PORT_HINT)
    if (line := log.no_space(said)) is not None:
        return NoSpace(f"{what}: {line}", hint=_SPACE_HINT, of_data=True)
    soname = library_in(said)
    if soname is not None:
        return LibraryMissing(
            f"{what}: the shared library {soname} is missing", hint=log.library_hint(soname)
        )
    if (line := log.no_memory(said)) is not None:
        return NoMemory(f"{what}: {line}", hint=log.MEMORY_HINT)
    return None


def killed(what: str, when: str = "") -> NoSpace:
    return NoSpace(
        f"{what} was killed by SIGKILL{when}, as the kernel does if memory runs out", hint=log.MEMORY_HINT
    )


def died(name: str, said: str) -> FlushlabError:
    """Of the running sandbox `name`, whose log said this since its start."""
    what = f"the server {name} is no longer running"
    if (line := log.no_space(said)) is not None:
        return NoSpace(f"{what}: {line}", hint=_SPACE_HINT, of_data=True)
    return ServerDied(f"{what}; its log says:\n{log.digest(said)}")


def ending(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def refusal(reason: str, build: Build) -> UsageError | NoMemory:
    """The error for settings that the server refused, in its own words: unknown names never come this far."""
    if (line := log.no_memory(reason)) is not None:
        return NoMemory(f"{build.name} found too little memory: {line}", hint=log.MEMORY_HINT)
    return UsageError(
        f"{build.name} refused the settings: {reason}", hint="flushlab settings lists what is known"
    )
