"""Templates: prepared data directories, kept as snapshots under a key of everything that affects them.

Suite layer, on `datadir`. The key holds the build, every setting and the database. With a prepare command, it
also holds the command and its inputs in order: content, and whether they may be executed. If inputs were only
appended, the template of the earlier inputs stays usable. A chain of digests finds the longest such prefix.
`prepare` decides whether the prefix may be used, by the facts in `flushlab-template.json`.

A template is captured from a server that was shut down normally; `auto.cnf` is left out (two servers of one
UUID), the RSA keys stay (drivers cache them).

An archive is a template as one compressed file, for the cache of a CI service. It is a ZIP file with the
snapshot's manifest as its first member, put in place by a rename. Holes come back as holes. An archive is
untrusted:

- Its key must be the requested one.
- Every path must stay inside the target.
- The manifest's checksums must hold.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Self

import msgspec

from flushlab.build import Build
from flushlab.build.choice import Sign, of_release, of_word
from flushlab.datadir import Snapshot, SnapshotKey, Snapshots
from flushlab.datadir.kept import last_used
from flushlab.datadir.restore import SCHEMA, Manifest, checksum, copy_tree
from flushlab.errors import NoSpace, NotWritable, SnapshotDamaged, StorageError, UsageError
from flushlab.machine import home
from flushlab.process import passing_folder
from flushlab.record import Value
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
    path: str
    sha256: str
    executable: bool = False


def read_inputs(patterns: Sequence[str], folder: Path) -> tuple[Input, ...]:
    """Refuses `**` beside other characters: Python before 3.13 reads it as `*`; users may mean every folder
    below."""
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
    for one in files:
        if not _OTHER_SYSTEM.search(one.path):
            with (folder / one.path).open("rb") as stream:
                yield one.path, stream.read(_READ_BYTES).decode(errors="replace")


def changes(before: Sequence[Input], now: Sequence[Input]) -> list[str]:
    then, here = ({one.path: one for one in files} for files in (before, now))
    paths = sorted({*then, *here}, key=natural_order)
    became = {path: "changed" if path in then and path in here else "added" for path in paths}
    became |= {path: "removed" for path in then if path not in here}
    return [f"{path} was {became[path]}" for path in paths if then.get(path) != here.get(path)]


def natural_order(name: str) -> tuple[tuple[int, int | str], ...]:
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


FORMAT = "6"
"""Raise this when the way templates are made changes."""

FACTS = "flushlab-template.json"
DEFAULT_LIMIT_BYTES = 8 << 30

_LEFT_OUT = ("auto.cnf", "ib_buffer_pool", "ibtmp1", "mysqld.pid", "#innodb_temp")


_MANIFEST = "manifest.json"
_LEVEL = 1
"""Deflate's fastest: a data directory is mostly zeros, and higher levels cost more than they save."""
_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    EOFError,
    ValueError,
    RuntimeError,  # said to be encrypted, or compressed in a way of its own
    msgspec.DecodeError,
)


class History(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    table: str
    rows: int
    checksum: int
    by_file: bool = True


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`rerunnable`: a second run of the prepare command changed nothing; `prepare_seconds`: with throwaway
    settings."""

    folder: str = ""
    scripts: tuple[Input, ...] = ()
    inputs: tuple[Input, ...] = ()
    histories: tuple[History, ...] = ()
    rerunnable: bool = False
    prepare_seconds: float = 0.0
    errors: tuple[str, ...] = ()


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    build: Build
    settings: Mapping[str, Value] = {}
    database: str
    characters: str = ""
    dataset_key: Mapping[str, str] = {}
    prepare: str = ""
    scripts: tuple[Input, ...] = ()
    templates: Mapping[str, str] = {}
    inputs: tuple[Input, ...] = ()

    @property
    def content(self) -> Mapping[str, Value]:
        return self.settings

    def keys(self) -> tuple[SnapshotKey, ...]:
        parts = {
            "what": "test template",
            "format": FORMAT,
            "build": self.build.id,
            "database": self.database + self.characters,
            **{f"set:{name}": str(value) for name, value in sorted(self.content.items())},
            **self.dataset_key,
        }
        if not self.prepare:
            return (SnapshotKey(parts),)
        environment = "\n".join(f"{name}={text}" for name, text in self.templates.items())
        scripts = chain(self.scripts)[-1]
        parts |= {"prepare": self.prepare, "environment": environment, "scripts": scripts}
        return tuple(
            SnapshotKey({**parts, "inputs": digest, "count": str(count)})
            for count, digest in enumerate(chain(self.inputs))
        )

    @property
    def key(self) -> SnapshotKey:
        return self.keys()[-1]

    @property
    def unprepared(self) -> Self:
        return msgspec.structs.replace(self, prepare="", scripts=(), templates={}, inputs=())


class Templates:
    def __init__(self, cache: Path | None = None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.snapshots = Snapshots(home() / "templates", limit_bytes)
        self._cache = cache
        self._limit_bytes = limit_bytes

    def find(self, recipe: Recipe) -> Snapshot | None:
        return self._find(recipe.key)

    def find_prefix(self, recipe: Recipe) -> tuple[Snapshot, Facts] | None:
        for key in reversed(recipe.keys()[1:-1]):
            found = self._find(key)
            if found is not None:
                return found, read_facts(found)
        return None

    def find_last(self, recipe: Recipe, folder: Path) -> Facts | None:
        wanted = _but_for_files(recipe.key)
        alike = [one for one in self.snapshots.list() if _but_for_files(one.key) == wanted]
        alike.sort(key=lambda one: last_used(one.path.parent), reverse=True)
        return next((facts for one in alike if (facts := read_facts(one)).folder == str(folder)), None)

    def capture(self, recipe: Recipe, datadir: Path, find_facts: Callable[[], Facts]) -> Snapshot:
        """`find_facts` is called behind the copy, and may start the server again."""
        key = recipe.key

        def fill(target: Path) -> None:  # zeros as holes, without what is one server's own
            copy_tree(datadir, target, leave_out=_LEFT_OUT, sparse="always")
            (target / FACTS).write_bytes(msgspec.json.encode(find_facts()))

        snapshot = self.snapshots.make(key, fill)
        self.snapshots.evict(self._limit_bytes, keep=key.digest)
        if self._cache is not None:
            export_archive(snapshot, self._archive(key))
            self._evict_archives(keep=key.digest)
        return snapshot

    def drop(self, snapshot: Snapshot) -> None:
        self.snapshots.remove(snapshot.key)
        if self._cache is not None:
            _remove_archive(self._archive(snapshot.key))

    def _find(self, key: SnapshotKey) -> Snapshot | None:
        try:
            found = self.snapshots.find(key)
        except SnapshotDamaged:
            self.snapshots.remove(key)
            found = None
        if self._cache is not None:
            archive = self._archive(key)
            if found is None and archive.is_file():
                found = self._import(key, archive)
            elif found is not None and not os.path.lexists(archive) and key == found.key:
                export_archive(found, archive)
                self._evict_archives(keep=key.digest)
            if found is not None and is_ours(archive):
                with suppress(OSError):  # another user's, in a shared folder
                    os.utime(archive)
        return found

    def _import(self, key: SnapshotKey, archive: Path) -> Snapshot | None:
        try:
            snapshot = self.snapshots.make(key, lambda target: import_archive(archive, key, target))
        except NoSpace:
            raise
        except (SnapshotDamaged, StorageError):
            _remove_archive(archive)  # it is made anew
            return None
        self.snapshots.evict(self._limit_bytes, keep=key.digest)
        return snapshot

    def _archive(self, key: SnapshotKey) -> Path:
        assert self._cache is not None
        return self._cache / archive_name(key)

    def _evict_archives(self, keep: str) -> None:
        assert self._cache is not None
        sizes = [(file.stat(), file) for file in self._cache.glob("flushlab-*.zip") if is_ours(file)]
        sizes.sort(key=lambda pair: (keep not in pair[1].name, -pair[0].st_mtime))
        total = 0
        for facts, file in sizes:
            total += facts.st_size
            if total > self._limit_bytes and keep not in file.name:
                _remove_archive(file)


def _but_for_files(key: SnapshotKey) -> dict[str, str]:
    return {name: part for name, part in key.parts.items() if name not in ("scripts", "inputs", "count")}


def read_facts(snapshot: Snapshot) -> Facts:
    try:
        return msgspec.json.decode((snapshot.path / FACTS).read_bytes(), type=Facts)
    except (OSError, msgspec.DecodeError):
        return Facts()


def check_cache(folder: Path | None) -> Path | None:
    if folder is None:
        return None
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the cache {folder} cannot be created: {error.strerror}", hint="choose another with --cache"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"the cache {folder} is not writable", hint="choose another with --cache")
    return folder


def _remove_archive(archive: Path) -> None:
    if is_ours(archive):
        with suppress(OSError):  # another user's, in a shared folder
            archive.unlink(missing_ok=True)


def export_archive(snapshot: Snapshot, archive: Path) -> None:
    try:
        with passing_folder(archive.parent, "archive") as folder:
            temporary = folder / archive.name
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as file:
                file.writestr(_MANIFEST, msgspec.json.encode(snapshot.manifest))
                for one in snapshot.manifest.files:
                    file.write(snapshot.path / one.path, f"data/{one.path}")
            if not os.path.lexists(archive) or is_ours(archive):
                temporary.replace(archive)
    except OSError as error:
        raise NotWritable(f"{archive} cannot be written: {error.strerror or error}") from error


def archive_name(key: SnapshotKey) -> str:
    return f"flushlab-{key.digest}.zip"


def is_ours(archive: Path) -> bool:
    if archive.is_symlink() or not archive.is_file():
        return False
    try:
        with zipfile.ZipFile(archive) as file:
            manifest = msgspec.json.decode(file.read(_MANIFEST), type=Manifest)
    except (OSError, *_DAMAGED):
        return False
    return manifest.schema == SCHEMA and archive.name == archive_name(SnapshotKey(manifest.key))


def import_archive(archive: Path, key: SnapshotKey, target: Path) -> None:
    """Raises SnapshotDamaged, also for a path outside the target."""
    try:
        with zipfile.ZipFile(archive) as file:
            manifest = msgspec.json.decode(file.read(_MANIFEST), type=Manifest)
            if manifest.schema != SCHEMA or SnapshotKey(manifest.key) != key:
                raise SnapshotDamaged(f"{archive} contains a different template than its name says")
            for folder in manifest.folders:
                path = _inside(target, folder.path)
                path.mkdir(exist_ok=True)
                if path != target:
                    path.chmod(folder.mode | 0o700)
            for one in manifest.files:
                path = _inside(target, one.path)
                _unpack(file, f"data/{one.path}", path, one.size_bytes)
                path.chmod(one.mode)
                if checksum(path) != one.crc32:
                    raise SnapshotDamaged(f"{archive} is damaged: the content of {one.path} has changed")
    except _DAMAGED as error:
        raise SnapshotDamaged(f"{archive} is damaged: {error}") from error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a decompressor's word; a seek to where the archive says
            raise
        raise SnapshotDamaged(f"{archive} is damaged: {error}") from error


def _inside(target: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SnapshotDamaged(f"a path in the archive leads outside: {name}")
    return target / path


def _unpack(file: zipfile.ZipFile, member: str, path: Path, size_bytes: int) -> None:
    with file.open(member) as source, path.open("xb", buffering=0) as sink:
        offset = 0
        while chunk := source.read(_CHUNK_BYTES):
            if offset + len(chunk) > size_bytes:
                raise SnapshotDamaged(f"{member} is longer than it was")
            if chunk != _ZEROS[: len(chunk)]:
                os.pwrite(sink.fileno(), chunk, offset)
            offset += len(chunk)
        os.ftruncate(sink.fileno(), size_bytes)
