"""Log: what a server's error log says about a start or an end.

Server layer, pure but for `tail` and `since`. The rules hold for MariaDB 10.11 and MySQL 5.7 and 8.0; real
logs of each stand in the tests.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from flushlab.build.library import debian_packages, library_in

__all__ = [
    "errors",
    "library_hint",
    "library_in",
    "no_memory",
    "no_space",
    "port_taken",
    "refusal_from_log",
    "refused_name",
    "since",
    "tail",
]

_TAIL_BYTES = 64 * 1024

_REFUSED = (
    re.compile(r"unknown (?:variable|option) '(?:--)?(?P<name>[\w.-]+)", re.IGNORECASE),
    re.compile(r"ambiguous option '(?:--)?(?P<name>[\w.-]+)", re.IGNORECASE),
    re.compile(r"option '(?:--)?(?P<name>[\w.-]+)' (?:cannot|requires)", re.IGNORECASE),
    re.compile(r"Unknown suffix '.*' used for variable '(?P<name>[\w.-]+)'", re.IGNORECASE),
    re.compile(r"Error while setting value '.*' to '(?P<name>[\w.-]+)'", re.IGNORECASE),
    re.compile(r"Unrecognized value .* for (?P<name>innodb[\w.-]+)", re.IGNORECASE),
    re.compile(r"(?:Unknown|Invalid|Wrong) .*?\b(?P<name>innodb_[a-z_]+)", re.IGNORECASE),
    re.compile(
        r"(?:^|[\s'`(])-{0,2}(?P<name>innodb[_-][a-z_-]+)\b.*(?:must|should|cannot|too|invalid)",
        re.IGNORECASE,
    ),
)
_ERROR = re.compile(r"\[ERROR\]|^\S*(?:mysqld|mariadbd): ")
_NOISE = re.compile(
    r"\[ERROR\](?: \[[^]]*\])* (?:\S*: )?(?:Aborting|Parsing options failed)|Plugin 'InnoDB'", re.IGNORECASE
)
_NO_SPACE = re.compile(r"No space left on device|errno:? 28\b|error number 28\b|Disk is full", re.IGNORECASE)
_PORT_TAKEN = re.compile(r"bind on TCP/IP port.*|Address already in use", re.IGNORECASE)
_NO_MEMORY = re.compile(r"Cannot allocate memory|Out of memory|cannot allocate \d+ bytes", re.IGNORECASE)


def tail(file: Path, lines: int = 20) -> str:
    """The last lines of a log file; empty if there is none."""
    return "\n".join(_last_part(file).splitlines()[-lines:])


def since(file: Path, offset_bytes: int) -> str:
    """What was written after `offset_bytes`; empty if there is no file."""
    try:
        with file.open("rb") as handle:
            handle.seek(offset_bytes)
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def refusal_from_log(log_text: str) -> str | None:
    """The line that says which option the server refused and why; None if no option was the reason."""
    found = _refusal(log_text)
    return found[0] if found else None


def refused_name(log_text: str) -> str | None:
    """The option that the server refused, spelled as a variable; None if the log names none."""
    found = _refusal(log_text)
    return found[1] if found else None


def errors(log_text: str) -> list[str]:
    """Lines that are errors, in order."""
    return [line.strip() for line in log_text.splitlines() if _ERROR.search(line)]


def no_space(log_text: str) -> str | None:
    """The line that says that the disk is full, or None."""
    return _first(_NO_SPACE, log_text)


def no_memory(log_text: str) -> str | None:
    """The line that says that memory ran out, or None."""
    return _first(_NO_MEMORY, log_text)


def port_taken(log_text: str) -> bool:
    """True if the server found its port in use."""
    return _first(_PORT_TAKEN, log_text) is not None


def library_hint(soname: str) -> str | None:
    """Which package brings a shared library back."""
    packages = debian_packages(soname)
    return f"install the package {packages[0]}" if packages else None


def _refusal(log_text: str) -> tuple[str, str] | None:
    for line in errors(log_text):
        if _NOISE.search(line):
            continue
        for pattern in _REFUSED:
            match = pattern.search(line)
            if match:
                return line, match["name"].lower().replace("-", "_")
    return None


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    return next((line.strip() for line in text.splitlines() if pattern.search(line)), None)


def _last_part(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - _TAIL_BYTES))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
