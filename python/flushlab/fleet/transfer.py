"""Transfer: what a campaign needs reaches machines that lack it, whole and checked.

Fleet layer. `send` runs on the driver, a `Recipient` in the worker on each machine; how calls and bytes get
there is Ray's matter (`Reached`). A build lands in the home's `builds/`, as if it had been installed there.
Workloads' files and data sets land in `content/`, under the hash of their manifest. Until it is whole,
content is in `content/part-HASH`, which outlives a kill.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import zstandard

from flushlab.atomic import locked_by_one
from flushlab.build import survey
from flushlab.build.build import Build
from flushlab.build.prefix import Published, publish_prefix
from flushlab.build.tarball import build_in
from flushlab.datadir.kept import hold
from flushlab.dataset import open_dataset
from flushlab.errors import (
    BuildNotFound,
    FleetError,
    FlushlabError,
    HarnessError,
    NoSpace,
    NotWritable,
    StorageError,
    UsageError,
)
from flushlab.fleet import content
from flushlab.fleet.content import ContentManifest, FileEntry
from flushlab.fleet.received import ReceivedFiles, make_part
from flushlab.machine import home_part, ownership
from flushlab.process import discard
from flushlab.units import format_size
from flushlab.workload.generators import Reached

PIECE_BYTES = 4 << 20
LEVEL = 3
"""Of Zstandard: its default."""
WINDOW = 4
"""Pieces on their way at once: neither this machine nor Ray's object store holds more."""
PROGRESS_S = 30.0
"""A transfer that takes longer says how far it is, so often."""
ABSOLUTE = "another file names it by an absolute path"
"""Why a file stays: that name cannot be changed."""


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    manifests: tuple[ContentManifest, ...] = ()
    builds: tuple[tuple[Build, str | None], ...] = ()


class TransferPlace(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    key: Mapping[str, str] = {}


Delivered = tuple[TransferPlace, ...] | FlushlabError


def send(
    needed: Needed,
    machines: Collection[Reached],
    say: Callable[[str], None],
    keep: Callable[[bytes], Any] = bytes,
) -> dict[str, Delivered]:
    """Each piece is read once for all machines. Raises StorageError if a file changed since the manifest was
    made."""
    failed = dict[str, FlushlabError]()

    def answer(machine: Reached, wait: Callable[[], Any]) -> Any:
        try:
            return wait()
        except FleetError:
            raise
        except FlushlabError as error:
            failed.setdefault(machine.machine, error)

    asked = [(machine, machine.call("expect", needed)) for machine in machines]
    lacking = dict[tuple[int, str], list[Reached]]()
    for machine, wait in asked:
        for number, paths in enumerate(answer(machine, wait) or ()):
            for path in paths:
                lacking.setdefault((number, path), []).append(machine)
    entries = {
        (number, entry.path): entry
        for number, manifest in enumerate(needed.manifests)
        for entry in manifest.files
    }
    lines = dict[tuple[str, int], list[str]]()  # one for all machines that lack the same
    for machine in machines:
        keys = [key for key, wanting in lacking.items() if machine in wanting]
        names = [needed.manifests[number].name for number in sorted({number for number, _ in keys})]
        size = sum(entries[key].size_bytes for key in keys)
        lines.setdefault((", ".join(names), size), []).append(machine.machine)
    for (words, size), receiving in lines.items():
        if words:
            say(f"sends {words}, {format_size(size)}, to {', '.join(receiving)}")
    under_way = deque[tuple[Reached, Callable[[], Any]]]()
    total, done, told_s = sum(entries[key].size_bytes for key in lacking), 0, time.monotonic()
    for (number, path), wanting in lacking.items():
        file = Path(needed.manifests[number].root) / path
        for offset, piece in _pieces(file, entries[number, path].digest):
            left = [machine for machine in wanting if machine.machine not in failed]
            if not left:
                break
            packed = keep(zstandard.compress(piece, LEVEL))
            under_way += [(machine, machine.call("take", number, path, offset, packed)) for machine in left]
            while len(under_way) > WINDOW * len(machines):
                answer(*under_way.popleft())
            done += len(piece)
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                say(f"sent {format_size(done)} of {format_size(total)}")
    for machine, wait in under_way:
        answer(machine, wait)
    ends = [(one, one.call("finish")) for one in machines if one.machine not in failed]
    places = {machine.machine: answer(machine, wait) for machine, wait in ends}
    return {**places, **failed}


def _pieces(file: Path, expected: str) -> Iterator[tuple[int, bytes]]:
    digest, offset = hashlib.sha256(), 0
    try:
        with file.open("rb") as handle:
            while piece := handle.read(PIECE_BYTES):
                digest.update(piece)
                yield offset, piece
                offset += len(piece)
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != expected:
        raise StorageError(f"{file} has changed while it was sent", hint="run the command again")


class Recipient:
    def __init__(self) -> None:
        self._arriving: tuple[_Arriving, ...] = ()

    def expect(self, needed: Needed) -> list[list[str]]:
        for build, basedir in needed.builds:
            _require_build(build, basedir)
        for manifest in needed.manifests:
            manifest.require_inside()
        self._arriving = tuple(map(_Arriving, needed.manifests))
        return [[entry.path for entry in one.missing] for one in self._arriving]

    def take(self, number: int, path: str, offset: int, packed: bytes) -> None:
        arriving = self._arriving[number]
        with _told(arriving.part), (arriving.part / path).open("r+b") as file:
            file.seek(offset)
            file.write(zstandard.decompress(packed))

    def finish(self) -> tuple[TransferPlace, ...]:
        places = tuple(one.finish() for one in self._arriving)
        received = ReceivedFiles()
        received.evict(received.limit_bytes, spare_ours=True)
        return places


class _Arriving:
    def __init__(self, manifest: ContentManifest) -> None:
        self.manifest, digest = manifest, manifest.digest[:32]
        self.part = home_part("content") / f"part-{digest}"
        self._final = (
            home_part("builds") / Path(manifest.root).name
            if manifest.kind == "build"
            else home_part("content") / f"{manifest.kind}-{digest}"
        )
        self.root = self._here()
        self.missing: Sequence[FileEntry] = () if self.root is not None else self._prepared()

    def _here(self) -> Path | None:
        if self.manifest.kind == "build":
            return self._final if _is_published(self._final.name) else None
        there = _same_path(self.manifest)
        if there is not None and self._is_whole_in(there):
            return there
        with _told(self._final):
            hold(self._final)  # first: what is found stays
            if not self._is_in_place():
                return None
            if there is not None:
                content.copy_staying(self.manifest, there, self._final)
        return self._final

    def _is_whole_in(self, root: Path) -> bool:
        return all(
            (root / entry.path).is_dir() if entry.is_folder else content.is_alike(entry, root / entry.path)
            for entry in self.manifest.entries
        )

    def _is_in_place(self) -> bool:
        if self.manifest.kind == "data":  # nothing writes there, and hashing takes minutes
            return self._final.is_dir() and all(
                content.looks_alike(entry, self._final / entry.path) for entry in self.manifest.files
            )
        return self._is_whole_in(self._final)

    def _prepared(self) -> Sequence[FileEntry]:
        manifest, part, there = self.manifest, self.part, _same_path(self.manifest)
        for entry in manifest.files:
            if entry.stays and not (there and content.is_alike(entry, there / entry.path)):
                way_out = "name it relative to the folder of the command"
                raise UsageError(
                    f"it needs {Path(manifest.root) / entry.path}, which is not sent: {entry.stays}",
                    hint="copy it to the same path there, or "
                    + (way_out if entry.stays == ABSOLUTE else "take the password out of it"),
                )
        with locked_by_one(part.with_name(f".{part.name}.lock")), _told(part):
            hold(part)
            if not part.is_dir():
                make_part(part, manifest.name)
            missing = content.missing(manifest, part)
            lacking, status = sum(entry.size_bytes for entry in missing), os.statvfs(part)
            if (free := status.f_bavail * status.f_frsize) < lacking:
                raise NoSpace(
                    f"{manifest.name} needs {format_size(lacking)} more, and {part.parent} has"
                    f" {format_size(free)} free: {lacking - free} bytes are lacking",
                    hint="make room there, or set FLUSHLAB_HOME to another file system",
                )
            content.prepare(manifest, part)
            if there is not None:
                content.copy_staying(manifest, there, part)
        return missing

    def finish(self) -> TransferPlace:
        if self.root is None:
            self.root = self._final
            if self.manifest.kind == "build":
                publish_prefix(self._final.name, _is_published, self._fill_build, needed_bytes=0)
            else:
                with locked_by_one(self._final.with_name(f".{self._final.name}.lock")):
                    self._put_in_place()
            discard(self.part)
        if self.manifest.kind != "data":
            return TransferPlace(root=str(self.root))
        return TransferPlace(
            root=str(self.root), key=open_dataset(self.root / self.manifest.entries[0].path).key
        )

    def _require_whole(self) -> None:
        if lacking := content.missing(self.manifest, self.part):
            raise HarnessError(
                f"{self.manifest.name} did not arrive whole: {lacking[0].path} is damaged",
                hint="run the command again: it sends these files only",
            )

    def _put_in_place(self) -> None:
        final = self._final
        if not self._is_in_place():
            self._require_whole()
            if os.path.lexists(final) and not discard(final):
                raise NotWritable(f"{final} is in the place of content", hint="move it away")
            with _told(final):
                content.seal(self.manifest, self.part)
                self.part.rename(final)

    def _fill_build(self, staging: Path, final: Path) -> Literal[True]:
        self._require_whole()
        content.seal(self.manifest, self.part)
        for path in self.part.iterdir():
            if path.name != ownership.MARK:
                shutil.move(path, staging / path.name)
        document = staging / "build.json"
        if document.is_file():  # it has absolute paths
            text = document.read_text()
            there = msgspec.json.decode(text, type=Published).build.prefix
            document.write_text(text.replace(there, str(final)))
        return True


def _same_path(manifest: ContentManifest) -> Path | None:
    return None if manifest.kind == "build" else Path(manifest.root)


def _is_published(key: str) -> Literal[True] | None:
    folder = home_part("builds") / key
    return True if any((folder / name).is_file() for name in ("build.json", "galera.json")) else None


def _require_build(build: Build, basedir: str | None) -> None:
    try:
        if basedir is not None:
            found = build_in(Path(basedir)).id == build.id
        else:
            found = any(one.id == build.id for one in survey().builds)
    except BuildNotFound:
        found = False
    if not found:
        raise UsageError(
            f"it has no {build.name} of the binary {build.id}, and {build.mysqld} is not sent: it is outside"
            " flushlab's folder",
            hint="install the same there, or name a server that flushlab fetches, such as mariadb@10.11",
        )


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(
                f"{folder} is full", hint="make room there, or set FLUSHLAB_HOME to another file system"
            ) from error
        raise NotWritable(f"{folder} cannot be written: {error}", hint="see its owner and mode") from error
