"""Inputs: the files that a prepare command reads, in the order in which migration tools apply them.

Suite layer; reads the files, and what they say about servers. Numbers in names count as numbers, so that
`V10__x.sql` comes behind `V9__y.sql` and adding it appends. Where a tool orders otherwise, an added file
merely looks inserted, and the prepare command runs in full.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from flushlab.build.choice import Sign, of_release, of_word
from flushlab.errors import StorageError, UsageError
from flushlab.settings.words import find_words

_NUMBER = re.compile(r"(\d+)")
_READ_BYTES = 1 << 20
_HEAD = 8 << 10
_DUMPED = re.compile(r"Server version|SQL Dump|^-- \S+ dump ", re.IGNORECASE | re.MULTILINE)
_OTHER_SYSTEM = re.compile(
    r"(?:^|[/._-])(?:postgres\w*|pgsql|sqlite3?|oracle|mssql|sqlserver|h2|hsqldb|db2)(?:[/._-]|$)",
    re.IGNORECASE,
)
"""Migrations for several systems lie side by side."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One file.

    Attributes:
        path: as it was found, relative to the working directory unless the pattern was absolute.
        sha256: of its content.
        executable: flushlab's user may execute it: without that a script fails.
    """

    path: str
    sha256: str
    executable: bool = False


def read_inputs(patterns: Sequence[str], folder: Path) -> tuple[Input, ...]:
    """The files that patterns match, in natural order, each once.

    Args:
        patterns: with `*`, `?`, `[…]` and `**`; a folder means every file below it.
        folder: start of relative patterns.

    Raises:
        UsageError: a pattern matches no file, or has `**` beside other characters: Python refuses
            that before 3.13 and then reads it as `*`, and users may mean every folder below; or the name of
            a file is not UTF-8.
        StorageError: a file cannot be read.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        files = _files(pattern, folder)
        if not files:
            raise UsageError(
                f"--inputs {pattern!r} matches no file in {folder}",
                hint="quote the pattern, and name the files that the prepare command reads",
            )
        found.update(files)
    return tuple(_input(name, found[name]) for name in sorted(found, key=natural_order))


def read_scripts(command: str, folder: Path) -> tuple[Input, ...]:
    """The files of the user's that a prepare command names itself, in the command's order.

    Scripts and what they are fed: `./migrate.sh`, `python migrate.py --config=db.yml`, `mysql app < x.sql`,
    `cd db && ./seed.sh`. Programs are not among them.

    Raises:
        UsageError: the name of one is not UTF-8.
        StorageError: a file cannot be read.
    """
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:  # an apostrophe that the shell may understand otherwise
        words = command.split()
    words = [part for word in words for part in (word, word.partition("=")[2]) if part]
    # Not by Path: words of a program may be no path at all, too long or with a zero in them.
    places = [folder, *(folder / word for word in words if os.path.isdir(folder / word))]  # noqa: PTH112
    found: dict[str, Path] = {}
    for place in places:
        for word in words:
            file = place / os.path.expanduser(word)  # noqa: PTH111
            if os.path.isfile(file) and not _is_program(file):  # noqa: PTH113
                found[os.path.relpath(file, folder)] = file
    return tuple(_input(name, file) for name, file in sorted(found.items()))


def signs_in(files: Sequence[Input], command: str, folder: Path) -> Iterator[Sign]:
    """What files and a prepare command say about the servers that take them: the server of a dump, and words
    that others refuse, each at its first place."""
    known: set[str] = set()
    for path, text in (*_texts(files, folder), ("the prepare command", command)):
        is_sql = path.lower().endswith(".sql")
        if is_sql and _DUMPED.search(text[:_HEAD]):
            from flushlab.dataset.survey import header  # a suite without dumps starts without it

            if (origin := header(text[:_HEAD])[1]) and origin not in known:
                known.add(origin)
                yield of_release(path, origin)
        for word in find_words(text, "sql" if is_sql else "source"):
            if word.says not in known:
                known.add(word.says)
                yield of_word(path, word)


def _texts(files: Sequence[Input], folder: Path) -> Iterator[tuple[str, str]]:
    """The beginnings of files, but for those of other database systems."""
    for one in files:
        if not _OTHER_SYSTEM.search(one.path):
            with (folder / one.path).open("rb") as stream:
                yield one.path, stream.read(_READ_BYTES).decode(errors="replace")


def changes(before: Sequence[Input], now: Sequence[Input]) -> list[str]:
    """What became of files since then, a clause each: `V1.sql was changed`."""
    then, here = ({one.path: one for one in files} for files in (before, now))
    paths = sorted({*then, *here}, key=natural_order)
    became = {path: "changed" if path in then and path in here else "added" for path in paths}
    became |= {path: "removed" for path in then if path not in here}
    return [f"{path} was {became[path]}" for path in paths if then.get(path) != here.get(path)]


def natural_order(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sorting key in which numbers count as numbers."""
    parts = _NUMBER.split(name)
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts if part)


def chain(inputs: Sequence[Input]) -> tuple[str, ...]:
    """A digest per number of leading inputs, from none to all: equal ones mean equal beginnings."""
    digests = [hashlib.sha256(b"no inputs").hexdigest()]
    for one in inputs:
        line = f"{digests[-1]} {one.sha256} {'x' if one.executable else '-'} {one.path}"
        digests.append(hashlib.sha256(line.encode(errors="surrogateescape")).hexdigest())
    return tuple(digests)


def _files(pattern: str, folder: Path) -> dict[str, Path]:
    path = Path(os.path.expanduser(pattern))  # noqa: PTH111  # Path's raises where there is no such user
    if path.is_absolute():
        base, relative = Path(path.anchor), str(path.relative_to(path.anchor))
    else:
        base, relative = folder, str(path)
    if (base / relative).exists():
        matches = [base / relative]
    elif unclear := next((part for part in path.parts if "**" in part and part != "**"), None):
        clear = re.sub(r"\*{2,}", "*", unclear)
        below, once = (pattern.replace(unclear, part) for part in (f"**/{clear}", clear))
        raise UsageError(
            f"--inputs {pattern!r}: ** stands for folders, and only alone between slashes",
            hint=f"write {below!r} to look in every folder below, {once!r} not to",
        )
    else:
        matches = sorted(base.glob(relative))
    files = [file for match in matches for file in ([match] if match.is_file() else match.rglob("*"))]
    return {
        str(file if path.is_absolute() else file.relative_to(folder)): file
        for file in files
        if file.is_file()
    }


def _is_program(file: Path) -> bool:
    """True for what a system's packages bring, and for machine code."""
    if file.resolve().is_relative_to("/usr") or file.resolve().parts[1] in ("bin", "sbin", "lib"):
        return True
    try:
        with file.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False  # its digest says why it cannot be read


def _input(name: str, file: Path) -> Input:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name of the input {name!r} is not UTF-8", hint="rename the file") from None
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"the input {file} cannot be read: {error.strerror}") from error
    return Input(path=name, sha256=digest, executable=os.access(file, os.X_OK))
