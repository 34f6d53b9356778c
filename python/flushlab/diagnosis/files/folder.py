"""Folder: reads the files of a diagnosis, each as what it is.

A folder is read without its subfolders. Of several samples of pt-stalk in one, the last is taken, or the one
that the path names: DIR/2026_11_27_04_50_00.
"""

from __future__ import annotations

import glob
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.diagnosis.files import SOURCES
from flushlab.diagnosis.files.told import Told
from flushlab.errors import StorageError, UsageError
from flushlab.units import format_size

MOST_BYTES = 64 << 20
"""A minute of pt-stalk at 5,000 connections has less."""
MOST_FILES = 1000
_SAMPLE = re.compile(r"(\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d)-\w.*")
_USELESS = re.compile(
    r".*-(?:tcpdump|strace|stacktrace|pmap|lsof|netstat(?:_s)?|interrupts|slabinfo|procvmstat|numastat|opentables\d"
    r"|mutex-status\d|sysctl|dmesg|ps|top|log_error|ps-locks-transactions|prepared-statements|lock-waits)"
)
"""Of pt-stalk: large, and nothing that a finding takes."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PACKED = {
    b"\x1f\x8b": "gunzip",
    b"BZh": "bunzip2",
    b"\xfd7zXZ": "unxz",
    b"(\xb5/\xfd": "unzstd",
    b"PK": "unzip",
}
HEAD_BYTES = 64 << 10
"""Tell whether a file is text."""


class FoundFiles(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    files: Mapping[str, Mapping[str, Told]]
    left_out: tuple[str, ...] = ()

    @property
    def told(self) -> list[Told]:
        return [told for sources in self.files.values() for told in sources.values()]


def read(path: Path) -> FoundFiles:
    """Raises UsageError if nothing is of use; StorageError for a file that is unreadable, too large or no
    text."""
    paths = _chosen(path)
    told = {file.name: _file(file, alone=len(paths) == 1) for file in paths}
    files = {name: sources for name, sources in told.items() if not isinstance(sources, str)}
    left_out = tuple(f"{name}: {why}" for name, why in told.items() if isinstance(why, str))
    found = FoundFiles(key=str(path), files=files, left_out=left_out)
    if any(one.is_of_server for one in found.told):
        return found
    useless = [*left_out, *(f"{name}: {', '.join(sources)}" for name, sources in files.items())]
    few = [*useless[:5], *([f"and {len(useless) - 5} more"] if len(useless) > 5 else [])]
    what = f"no file of {path} tells of a server: {'; '.join(few)}"
    if not useless:
        what = f"{path} has no files"
    elif path.is_file():
        what = f"{path} tells nothing of a server: {useless[0].partition(': ')[2]}"
    raise UsageError(
        what,
        hint="docs/how-to/doctor.md lists the files; two SHOW GLOBAL STATUS, seconds apart, are the least",
    )


def _chosen(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path]
        if path.is_dir():
            files, wanted = [*path.iterdir()], ""
        else:
            wanted = path.name
            files = [*path.parent.glob(f"{glob.escape(wanted)}-*")] if path.parent.is_dir() else []
        paths = [file for file in files if file.is_file()]
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if wanted and not paths:
        why = "it is neither a file nor a folder" if path.exists() else "No such file or directory"
        raise StorageError(f"{path} cannot be read: {why}", hint="name a folder of files, or one file")
    samples = sorted({match[1] for file in paths if (match := _SAMPLE.fullmatch(file.name))})
    if len(samples) > 1:
        paths = [file for file in paths if file.name.startswith(samples[-1])]
    if len(paths) > MOST_FILES:
        raise UsageError(
            f"{path} has {len(paths):,} files, more than {MOST_FILES:,}",
            hint="put the files of one server and one time into a folder of their own",
        )
    return sorted(paths, key=_in_time)


_FIRST, _LAST = re.compile(r"before|begin|start|first"), re.compile(r"after|end|stop|last|second|defer")


def _in_time(path: Path) -> tuple[int, list[tuple[int, str]]]:
    name = path.name.lower()
    rank = -1 if _FIRST.search(name) else 1 if _LAST.search(name) else 0
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return rank, [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _file(path: Path, *, alone: bool) -> Mapping[str, Told] | str:
    if _USELESS.fullmatch(path.name) and not alone:
        return "no finding takes it"
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            packed = next((command for magic, command in _PACKED.items() if head.startswith(magic)), None)
            is_binary = b"\0" in head and not head.startswith(_UTF16)
            if packed is not None or is_binary:
                why = "is compressed" if packed is not None else "is no text but binary"
                if alone:
                    hint = f"{packed} it first" if packed else "name the output of a client, as text"
                    raise StorageError(f"{path} {why}", hint=hint)
                return why
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise StorageError(
                    f"{path} has {format_size(size)}, more than {format_size(MOST_BYTES)}",
                    hint="cut it to a minute at the time of the trouble, or move it out of the folder",
                )
            text = _text(path, head + file.read(MOST_BYTES))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", hint="chmod, or copy it") from error
    if told := tell(text):
        return told
    if not text[:HEAD_BYTES].strip():
        return "empty"
    looks = (what for what, form in _STRANGERS.items() if form.search(text[:HEAD_BYTES]))
    return next((f"looks like {what}" for what in looks), "not known")


_QUOTED = re.compile(r"^(?:> ?)+", re.MULTILINE)
_STRANGERS = {
    "an option file: flushlab settings --check FILE judges it": re.compile(
        r"^\[(?:mysqld|server|client)", re.M
    ),
    "an error of the client": re.compile(r"^ERROR \d{4} ", re.M),
    "a slow query log": re.compile(r"^# Query_time: ", re.M),
    "an error log": re.compile(r"\[(?:Note|Warning|ERROR|System)\] ", re.I),
    "the version of a client, not of the server": re.compile(r"^(?:\S*/)?(?:mysql|mariadb)\s+Ver ", re.M),
    "EXPLAIN or a query plan": re.compile(r"\bselect_type\b"),
    "a dump": re.compile(r"^-- (?:MySQL|MariaDB) dump ", re.M),
}


def tell(text: str) -> dict[str, Told]:
    if text.startswith(">") or "\n>" in text:
        text = _QUOTED.sub("", text)
    if text.lstrip("\r\n")[:1].isspace():
        text = textwrap.dedent(text)
    return {
        name: told
        for name, (parse, marks) in SOURCES.items()
        if any(mark in text for mark in marks) and (told := parse(text))
    }


def _text(path: Path, content: bytes) -> str:
    """Statements in a list of connections may have any bytes; names and numbers are ASCII."""
    if not content.startswith(_UTF16):
        return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    try:
        return content.decode("utf-16")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{path} begins as UTF-16 and is not: {error.reason} at byte {error.start}",
            hint="write it again as UTF-8",
        ) from error
