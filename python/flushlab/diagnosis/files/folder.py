"""Folder: reads the files of a diagnosis, each as what it is.

A folder is read without its subfolders. Of several samples of pt-stalk in one, the last is taken, or the one
that the path names: DIR/2026_11_27_04_50_00.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
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


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read.

    Attributes:
        name: of the file.
        told: by the name of the source, what it tells.
    """

    name: str
    told: dict[str, Told]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a path.

    Attributes:
        key: the path, as it was given.
        files: those that tell something, in their order in time as far as names tell it.
        left_out: the others, each with the reason.
        sample: of pt-stalk, if there are several.
        samples: how many there are.
    """

    key: str
    files: tuple[Read, ...]
    left_out: tuple[str, ...] = ()
    sample: str = ""
    samples: int = 0


def read(path: Path) -> Found:
    """Reads a folder, a file, or a sample of pt-stalk.

    Raises:
        UsageError: nothing is there that a diagnosis could use.
        StorageError: a file cannot be read, is too large, packed, cut short, or no text.
    """
    paths, sample, samples = _chosen(path)
    found = [_file(one, alone=len(paths) == 1) for one in paths]
    files = [one for one in found if isinstance(one, Read)]
    left_out = tuple(one for one in found if isinstance(one, str))
    if not any(told.is_of_server for file in files for told in file.told.values()):
        raise _nothing(path, [*left_out, *(f"{one.name}: {', '.join(one.told)}" for one in files)])
    return Found(key=str(path), files=tuple(files), left_out=left_out, sample=sample, samples=samples)


def _chosen(path: Path) -> tuple[list[Path], str, int]:
    """The files to read, and the sample of pt-stalk that they are."""
    try:
        if path.is_file():
            return [path], "", 0
        if path.is_dir():
            paths, wanted = [one for one in path.iterdir() if one.is_file()], ""
        elif path.parent.is_dir():
            wanted = path.name
            paths = [one for one in path.parent.glob(f"{_literal(wanted)}-*") if one.is_file()]
        else:
            paths, wanted = [], path.name
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if wanted and not paths:
        why = "it is neither a file nor a folder" if path.exists() else "No such file or directory"
        raise StorageError(f"{path} cannot be read: {why}", hint="name a folder of files, or one file")
    samples = sorted({match[1] for one in paths if (match := _SAMPLE.fullmatch(one.name))})
    if len(samples) > 1:
        paths = [one for one in paths if one.name.startswith(samples[-1])]
    if len(paths) > MOST_FILES:
        raise UsageError(
            f"{path} has {len(paths):,} files, more than {MOST_FILES:,}",
            hint="put the files of one server and one time into a folder of their own",
        )
    return sorted(paths, key=_in_time), samples[-1] if samples else "", len(samples)


def _literal(name: str) -> str:
    """A name for `glob`."""
    return re.sub(r"([*?\[])", r"[\1]", name)


_FIRST, _LAST = re.compile(r"before|begin|start|first"), re.compile(r"after|end|stop|last|second|defer")


def _in_time(path: Path) -> tuple[int, list[tuple[int, str]]]:
    """Before `before` comes nothing, and after `after` neither; numbers count as numbers."""
    name = path.name.lower()
    rank = -1 if _FIRST.search(name) else 1 if _LAST.search(name) else 0
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return rank, [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _file(path: Path, *, alone: bool) -> Read | str:
    """What a file tells, or its name and why it is left out.

    Raises:
        StorageError: it cannot be read, or it is the only one and no text.
    """
    if _USELESS.fullmatch(path.name) and not alone:
        return f"{path.name}: no finding takes it"
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            if (why := _no_text(path, head)) is not None:
                if alone:
                    raise why
                return f"{path.name}: {why.message.removeprefix(f'{path} ')}"
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise StorageError(
                    f"{path} has {format_size(size)}, more than {format_size(MOST_BYTES)}",
                    hint="cut it to a minute at the time of the trouble, or move it out of the folder",
                )
            text = _text(path, head + file.read(MOST_BYTES))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", hint="chmod, or copy it") from error
    told = tell(text)
    return Read(name=path.name, told=told) if told else f"{path.name}: {_looks_like(text)}"


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


def _looks_like(text: str) -> str:
    """A text that tells nothing, in words."""
    head = text[:HEAD_BYTES]
    if not head.strip():
        return "empty"
    return next((f"looks like {what}" for what, form in _STRANGERS.items() if form.search(head)), "not known")


def tell(text: str) -> dict[str, Told]:
    """What a text tells, by the name of the source. Mails quote, and documents indent."""
    if text.startswith(">") or "\n>" in text:
        text = _QUOTED.sub("", text)
    if text.lstrip("\r\n")[:1].isspace():
        text = textwrap.dedent(text)
    asked = [source for source in SOURCES if any(mark in text for mark in source.marks)]
    return {source.name: told for source in asked if (told := source.parse(text))}


def _no_text(path: Path, head: bytes) -> StorageError | None:
    for magic, command in _PACKED.items():
        if head.startswith(magic):
            return StorageError(f"{path} is compressed", hint=f"{command} it first")
    if b"\0" in head and not head.startswith(_UTF16):
        return StorageError(f"{path} is no text but binary", hint="name the output of a client, as text")
    return None


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


def _nothing(path: Path, left_out: Sequence[str]) -> UsageError:
    what = f"no file of {path} tells of a server: {'; '.join(_few(list(left_out)))}"
    if not left_out:
        what = f"{path} has no files"
    elif path.is_file():
        what = f"{path} tells nothing of a server: {left_out[0].partition(': ')[2]}"
    return UsageError(
        what,
        hint="docs/how-to/doctor.md lists the files; two SHOW GLOBAL STATUS, seconds apart, are the least",
    )


def _few(names: list[str]) -> Iterator[str]:
    yield from names[:5]
    if len(names) > 5:
        yield f"and {len(names) - 5} more"
