"""Recipient: content that reaches this machine, each chunk checked, and all of it put in place at once.

Fleet layer; no Ray. A build lands in the home's `builds/`, as if it had been installed here. Workloads' files
and data sets land in `content/`, under the hash of their manifest. Until it is whole, content is in
`content/part-HASH`, which outlives a kill.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from flushlab.atomic import locked_by_one
from flushlab.build import survey
from flushlab.build.prefix import Published, publish_prefix
from flushlab.build.tarball import build_in
from flushlab.datadir.kept import evicted, hold, latest_first, limit_of, nobody_uses
from flushlab.dataset import open_dataset
from flushlab.errors import BuildNotFound, HarnessError, NoSpace, NotWritable, UsageError
from flushlab.fleet import content
from flushlab.fleet.content import Entry, Manifest
from flushlab.machine import home_part, home_path, ownership
from flushlab.process import discard, make_lasting
from flushlab.units import format_size

WHAT = "content"
_MOST_NAME = 200
"""Characters of a name in a mark, which is read up to 4 KiB."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of received content.

    Attributes:
        folder: with the mark in it.
        what: is in it, as its sender named it.
        allocated_bytes: what it takes on disk.
    """

    folder: Path
    what: str
    allocated_bytes: int

    @property
    def id(self) -> str:
        """Hash of its manifest."""
        return self.folder.name.partition("-")[2]


class Received:
    """The content in flushlab's home; safe to use from several processes at once."""

    def list(self) -> list[Content]:
        """All of it, by the folders' names."""
        directory = home_path() / "content"
        found = [] if not directory.is_dir() else sorted(directory.iterdir())
        return [one for folder in found if (one := _content(folder)) is not None]

    @property
    def limit_bytes(self) -> int:
        """What it may take together; a UsageError if `$FLUSHLAB_CACHE_SIZE` is not a size."""
        return limit_of(home_part("content"))

    def in_use(self, content: Content) -> bool:
        """True while a campaign counts on it, or receives it."""
        with nobody_uses(content.folder, spare_ours=True) as free:
            return not free

    def evict(self, limit_bytes: int, *, spare_ours: bool = False) -> tuple[Content, ...]:
        """Removes what was used longest ago until the rest takes at most `limit_bytes`; what is in use stays.

        Args:
            limit_bytes: of all.
            spare_ours: keep what this process uses, too.

        Returns:
            What was removed.
        """

        def remove(one: Content) -> bool:
            with nobody_uses(one.folder, spare_ours=spare_ours) as free, suppress(OSError):
                return free and discard(one.folder, what=WHAT)
            return False

        return evicted(latest_first(self.list()), limit_bytes, remove)


def make_part(folder: Path, name: str) -> None:
    """A new folder for content that arrives.

    Args:
        folder: in `content`.
        name: of what will be in it.

    Raises:
        OSError: it cannot be made.
    """
    make_lasting(folder, WHAT, of=name[:_MOST_NAME])


def _content(folder: Path) -> Content | None:
    mark = ownership.read_mark(str(folder))
    if mark is None or mark.get("what") != WHAT:
        return None
    kind = folder.name.partition("-")[0]
    what = " · ".join(("received in part" if kind == "part" else kind, mark.get("of", folder.name)))
    return Content(folder=folder, what=what, allocated_bytes=sum(_sizes(folder)))


def _sizes(folder: Path) -> Iterator[int]:
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a transfer has just put it in place
                yield (Path(above) / name).lstat().st_blocks * 512


Taken = Literal["taken", "damaged"]


class OutsideBuild(msgspec.Struct, frozen=True, kw_only=True):
    """A build that is not in flushlab's home, so that every machine needs its own.

    Attributes:
        id, name, mysqld: as `Build`.
        basedir: where it was asked for, or None.
    """

    id: str
    name: str
    mysqld: str
    basedir: str | None = None


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """Content that a campaign needs on every machine.

    Attributes:
        manifests: of what can be sent.
        builds: what cannot.
    """

    manifests: tuple[Manifest, ...] = ()
    builds: tuple[OutsideBuild, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where content is on a machine.

    Attributes:
        root: of the manifest's paths.
        key: of a data set, as it is there.
    """

    root: str
    key: Mapping[str, str] = {}


ABSOLUTE = "another file names it by an absolute path"
"""Why a file stays: that name cannot be changed."""


class _Arriving:
    """Content on its way.

    Attributes:
        manifest: of it.
        root: folder that it is in, or will be.
        places: of the chunks that are missing; empty if it is here.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.root = self._here()
        self.places: Mapping[str, Sequence[tuple[Entry, int]]] = {}
        if self.root is None:
            self.places = self._missing()

    @property
    def _final(self) -> Path:
        if self.manifest.kind == "build":
            return home_part("builds") / Path(self.manifest.root).name
        return home_part("content") / f"{self.manifest.kind}-{self.manifest.digest[:32]}"

    @property
    def part(self) -> Path:
        """Folder of what has arrived."""
        return home_part("content") / f"part-{self.manifest.digest[:32]}"

    def _here(self) -> Path | None:
        """The folder, if everything is here."""
        if self.manifest.kind == "build":
            return self._final if self._is_published(self._final.name) else None
        there = _same_path(self.manifest)
        if there is not None:
            folders = (there / one.path for one in self.manifest.entries if one.is_folder)
            if all(one.is_dir() for one in folders) and not any(content.differing(self.manifest, there)):
                return there
        with _told(self._final):
            hold(self._final)  # first: what is found stays
            if not self._is_in_place():
                return None
            if there is not None:
                content.renew_staying(self.manifest, there, self._final)
        return self._final

    def _is_in_place(self) -> bool:
        final = self._final
        if not final.is_dir():
            return False
        if self.manifest.kind == "data":  # nothing writes there, and hashing takes minutes
            return all(content.looks_alike(entry, final / entry.path) for entry in self.manifest.files)
        return not any(content.differing(self.manifest, final))

    def _is_published(self, key: str) -> Literal[True] | None:
        folder = home_part("builds") / key
        documents = (folder / name for name in ("build.json", "galera.json"))
        return True if any(one.is_file() for one in documents) else None

    def _missing(self) -> Mapping[str, Sequence[tuple[Entry, int]]]:
        manifest, part = self.manifest, self.part
        there = _same_path(manifest)
        for entry in manifest.files:
            if entry.stays and not (there and content.is_alike(entry, there / entry.path)):
                raise UsageError(
                    f"it needs {Path(manifest.root) / entry.path}, which is not sent: {entry.stays}",
                    hint="copy it to the same path there, or name it relative to the folder of the command"
                    if entry.stays == ABSOLUTE
                    else "copy it to the same path there, or take the password out of it",
                )
        with locked_by_one(part.with_name(f".{part.name}.lock")):
            with _told(part):
                hold(part)
                if not part.is_dir():
                    make_part(part, manifest.name)
            self._require_room()
            with _told(part):
                content.prepare(manifest, part)
                wanted = content.missing(manifest, part)
                if there is not None:
                    content.take_local(manifest, wanted, there, part)
                    wanted = content.missing(manifest, part)
        places = manifest.places()
        return {digest: places[digest] for digest in wanted}

    def _require_room(self) -> None:
        lacking = content.lacking_bytes(self.manifest, self.part)
        status = os.statvfs(self.part)
        free = status.f_bavail * status.f_frsize
        if free < lacking:
            raise NoSpace(
                f"{self.manifest.name} needs {format_size(lacking)} more, and {self.part.parent} has"
                f" {format_size(free)} free: {lacking - free} bytes are lacking",
                hint="make room there, or set FLUSHLAB_HOME to another file system",
            )

    def take(self, digest: str, piece: bytes) -> None:
        """Writes a chunk."""
        with _told(self.part):
            content.write(self.places[digest], self.part, piece)

    def finish(self) -> Path:
        """Checks the whole and puts it in place; returns the folder.

        Raises:
            HarnessError: it is not whole.
        """
        if self.root is not None:
            return self.root
        if self.manifest.kind == "build":
            publish_prefix(self._final.name, self._is_published, self._fill_build, needed_bytes=0)
        else:
            with locked_by_one(self._final.with_name(f".{self._final.name}.lock")):
                self._put_in_place()
        discard(self.part)
        self.root = self._final
        return self.root

    def _require_whole(self) -> None:
        if lacking := content.missing(self.manifest, self.part):
            raise HarnessError(
                f"{self.manifest.name} did not arrive whole: {len(lacking)} chunks differ",
                hint="run the command again: it sends these chunks only",
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
        for one in self.part.iterdir():
            if one.name != ownership.MARK:
                shutil.move(one, staging / one.name)
        document = staging / "build.json"
        if document.is_file():  # it has absolute paths
            text = document.read_text()
            there = msgspec.json.decode(text, type=Published).build.prefix
            document.write_text(text.replace(there, str(final)))
        return True


def _same_path(manifest: Manifest) -> Path | None:
    """Where files may be that are at the same path on every machine; None: a build has a home."""
    return None if manifest.kind == "build" else Path(manifest.root)


class Recipient:
    """Takes the content of one campaign."""

    def __init__(self) -> None:
        self._arriving: tuple[_Arriving, ...] = ()

    def expect(self, needed: Needed) -> list[list[str]]:
        """The chunks of each manifest that are missing here.

        Raises:
            UsageError: something that is not sent is not here.
            NoSpace: it does not fit.
        """
        for build in needed.builds:
            _require_build(build)
        for manifest in needed.manifests:
            manifest.require_inside()
        self._arriving = tuple(map(_Arriving, needed.manifests))
        return [[*one.places] for one in self._arriving]

    def take(self, digest: str, packed: bytes) -> Taken:
        """Writes a chunk to wherever it is missing, if it is what its hash says.

        Raises:
            NoSpace: the disk is full.
        """
        piece = content.unpack(packed)
        if content.digest_of(piece) != digest:
            return "damaged"
        for one in self._arriving:
            if digest in one.places:
                one.take(digest, piece)
        return "taken"

    def finish(self) -> list[Place]:
        """Puts all in place, and makes room as other caches do; where each manifest's content is now.

        Raises:
            HarnessError: something did not arrive whole.
        """
        places = [*map(_place, self._arriving)]
        received = Received()
        received.evict(received.limit_bytes, spare_ours=True)
        return places


def _place(arriving: _Arriving) -> Place:
    root, manifest = arriving.finish(), arriving.manifest
    if manifest.kind != "data":
        return Place(root=str(root))
    return Place(root=str(root), key=open_dataset(root / manifest.entries[0].path).key)


def _require_build(build: OutsideBuild) -> None:
    try:
        if build.basedir is not None:
            found = build_in(Path(build.basedir)).id == build.id
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
