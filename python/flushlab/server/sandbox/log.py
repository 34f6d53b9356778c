"""Log: what a server's error log says about a start or an end, and the error that fits it.

Server layer. The rules hold for MariaDB 10.11 and MySQL 5.7 and 8.0; real logs of each stand in the tests.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from flushlab.build import Build
from flushlab.build.inspect import debian_packages, library_in
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
from flushlab.server.sandbox.node import PORT_HINT

_TAIL_BYTES = 64 * 1024

_NAMED = (
    re.compile(r"unknown (?:variable|option) '(?:--)?(?P<name>[\w.-]+)", re.IGNORECASE),
    re.compile(r"ambiguous option '(?:--)?(?P<name>[\w.-]+)", re.IGNORECASE),
    re.compile(r"Unknown suffix '.*' used for variable '(?P<name>[\w.-]+)'", re.IGNORECASE),
    re.compile(r"Error while setting value '.*' to '(?P<name>[\w.-]+)'", re.IGNORECASE),
)
_ERROR = re.compile(r"\[ERROR\]")
_WORD = re.compile(r"[a-z]+")
_NO_SPACE = re.compile(r"No space left on device|error (?:number )?28\b|errno: 28\b", re.IGNORECASE)
_PORT_TAKEN = re.compile(
    r"bind on TCP/IP port.*|Address already in use|port '\d+' has been taken", re.IGNORECASE
)
"""The last: the scripts that fetch another node's data."""
_NO_MEMORY = re.compile(
    r"Cannot allocate memory|Out of memory(?! error\))|cannot allocate \d+ bytes|"
    r"Cannot map innodb_buffer_pool_size",
    re.IGNORECASE,
)


def tail(file: Path, lines: int = 20) -> str:
    return "\n".join(since(file, max(0, size(file) - _TAIL_BYTES)).splitlines()[-lines:])


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def since(file: Path, offset_bytes: int) -> str:
    try:
        with file.open("rb") as handle:
            handle.seek(offset_bytes)
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def refusal_from_log(log_text: str, settings: Mapping[str, Value] | None = None) -> str | None:
    """The line that says which option was refused and why; many of InnoDB's complaints spell no variable."""
    found = _refusal(log_text, settings or {})
    return found[0] if found else None


def refused_name(log_text: str, settings: Mapping[str, Value] | None = None) -> str | None:
    found = _refusal(log_text, settings or {})
    return found[1] if found else None


def errors(log_text: str) -> list[str]:
    return [line.strip() for line in log_text.splitlines() if _ERROR.search(line)]


def no_space(log_text: str) -> str | None:
    return _first(_NO_SPACE, log_text)


MEMORY_HINT = "lower innodb_buffer_pool_size, or free some memory"


def no_memory(log_text: str) -> str | None:
    return _first(_NO_MEMORY, log_text)


def port_taken(log_text: str) -> str | None:
    return _first(_PORT_TAKEN, log_text)


def digest(log_text: str, lines: int = 20) -> str:
    return "\n".join(errors(log_text)[:lines] or log_text.strip().splitlines()[-lines:])


def _refusal(log_text: str, settings: Mapping[str, Value]) -> tuple[str, str] | None:
    lines = errors(log_text)
    named = ((line, match) for line in lines for pattern in _NAMED if (match := pattern.search(line)))
    for line, match in named:
        return line, match["name"].lower().replace("-", "_")
    spoken_of = ((line, name) for line in lines for name, value in settings.items() if _of(line, name, value))
    return next(spoken_of, None)


def _of(line: str, name: str, value: Value) -> bool:
    said = _WORD.findall(line.lower())
    words = [word for word in name.split("_") if word != "innodb"]
    if words and all(any(one.startswith(word) for one in said) for word in words):
        return True
    return isinstance(value, str) and len(value) > 6 and value in line


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    return next((line.strip() for line in text.splitlines() if pattern.search(line)), None)


_ITS_PORT = "tcp/ip port"
_SPACE_HINT = "make room, or choose another place with --data-root"


def start_failed(
    build: Build, endpoint: Endpoint, settings: Mapping[str, Value], said: str, how: str
) -> FlushlabError:
    what = f"the server {build.name} {how}"
    message, refusal = f"{what}; its log says:\n{digest(said)}", refusal_from_log(said, settings)
    return shortage(what, endpoint, said) or StartFailed(message, refusal=refusal)


def shortage(what: str, endpoint: Endpoint, said: str) -> FlushlabError | None:
    if (line := port_taken(said)) is not None:
        if _ITS_PORT not in line.lower():  # one of those that nodes of a cluster have besides
            return PortTaken(f"{what}: {line}", hint="stop the program that listens there")
        return PortTaken(f"port {endpoint.port} on {endpoint.host} is in use", hint=PORT_HINT)
    if (line := no_space(said)) is not None:
        return NoSpace(f"{what}: {line}", hint=_SPACE_HINT, of_data=True)
    if (soname := library_in(said)) is not None:
        packages = debian_packages(soname)
        hint = f"install the package {packages[0]}" if packages else None
        return LibraryMissing(f"{what}: the shared library {soname} is missing", hint=hint)
    if (line := no_memory(said)) is not None:
        return NoMemory(f"{what}: {line}", hint=MEMORY_HINT)
    return None


def killed(what: str, when: str = "") -> NoSpace:
    return NoSpace(
        f"{what} was killed by SIGKILL{when}, as the kernel does if memory runs out", hint=MEMORY_HINT
    )


def died(name: str, said: str) -> FlushlabError:
    what = f"the server {name} is no longer running"
    if (line := no_space(said)) is not None:
        return NoSpace(f"{what}: {line}", hint=_SPACE_HINT, of_data=True)
    return ServerDied(f"{what}; its log says:\n{digest(said)}")


def ending(code: int | None) -> str:
    with suppress(ValueError):  # no signal
        return f"killed by {signal.Signals(-(code or 0)).name}"
    return f"exit code {code}"


def refusal(reason: str, build: Build) -> UsageError | NoMemory:
    if (line := no_memory(reason)) is not None:
        return NoMemory(f"{build.name} found too little memory: {line}", hint=MEMORY_HINT)
    return UsageError(
        f"{build.name} refused the settings: {reason}", hint="flushlab settings lists what is known"
    )
