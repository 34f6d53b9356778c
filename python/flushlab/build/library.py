"""Shared libraries: which ones a binary lacks here, and the Debian package that holds each.

Build layer. Reads what `ldd` says; changes nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from flushlab.errors import LibraryMissing
from flushlab.machine import ServerUser, server_user

_NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_LOADER_COMPLAINT = re.compile(r"error while loading shared libraries: ([^:\s]+):")
_SYMBOLS = re.compile(r"(?P<library>\S+): version `(?P<symbols>[\w.]+)' not found")
_SONAME = re.compile(r"(?P<stem>lib.+?)\.so(?:\.(?P<version>[0-9][0-9.]*(?:t64)?))?")


def missing_libraries(binaries: Iterable[Path], library_path: Sequence[str] = ()) -> list[str]:
    """Sonames that the dynamic linker cannot find for any of `binaries`, sorted.

    It may execute code of theirs, so it is asked as the user that servers run as.

    Args:
        binaries: ELF programs; other files (scripts) need no library and are fine.
        library_path: directories searched before the system's.
    """
    missing: set[str] = set()
    for binary in binaries:
        done = subprocess.run(
            ["ldd", str(binary)],
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **search_path(library_path)},
            capture_output=True,
            text=True,
            check=False,
            **identity(server_user()),
        )
        missing.update(_NOT_FOUND.findall(done.stdout))
    return sorted(missing)


def search_path(library_path: Sequence[str]) -> dict[str, str]:
    """The environment that makes the dynamic linker search `library_path` first."""
    return {"LD_LIBRARY_PATH": ":".join(library_path)} if library_path else {}


def identity(user: ServerUser) -> dict[str, Any]:
    """Arguments for `subprocess.run` that make `user` the one who runs it."""
    if user.uid == os.geteuid():
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": ()}


def library_in(complaint: str) -> str | None:
    """The soname that the dynamic linker's error message names, or None if it is another message."""
    match = _LOADER_COMPLAINT.search(complaint)
    return match[1] if match else None


def debian_packages(soname: str) -> tuple[str, ...]:
    """Names of the Debian packages that may hold a library, the usual one first.

    Debian policy, section 8.1: the soname without `.so.`, with a hyphen if the stem ends in a digit,
    in lower case. Since the 64-bit time transition (Debian 13, Ubuntu 24.04) some carry `t64`,
    and libaio has it in the soname too.
    """
    match = _SONAME.fullmatch(soname)
    if match is None:
        return ()
    stem = match["stem"].lower().replace("_", "-")
    version = match["version"] or ""
    name = f"{stem}-{version}" if version and stem[-1].isdigit() else f"{stem}{version}"
    return (name,) if name.endswith("t64") else (name, f"{name}t64")


def symbols_missing(binary: str, complaint: str) -> LibraryMissing | None:
    """The error for a library of this system that is too old; None if that is not the complaint."""
    match = _SYMBOLS.search(complaint)
    if match is None:
        return None
    symbols = match["symbols"].replace("_", " ", 1)
    return LibraryMissing(
        f"{binary} was built for a newer system: {Path(match['library']).name} here lacks {symbols}",
        hint="use a build for this system's release, or one that `flushlab server list` shows as"
        " available: those have their own libraries",
    )


def library_missing(binary: str, soname: str) -> LibraryMissing:
    """The error that names the library and its package."""
    packages = debian_packages(soname)
    hint = f"install the package {packages[0]} (newer releases: {packages[1]})" if packages else None
    return LibraryMissing(f"{binary} needs the shared library {soname}, which is not installed", hint=hint)
