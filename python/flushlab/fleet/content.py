"""Content: files of one machine as chunks with hashes, and the same files on another machine.

Fleet layer; no Ray, no network. A manifest lists files with their modes, sizes and the SHA-256 of each chunk.
The receiving side keeps no journal: the chunks that its files lack are found by hashing these files, so an
interrupted transfer goes on with the rest.

Files with passwords stay where they are (`Entry.stays`). The receiving machine needs its own copy at the same
path; the manifest has the hash of the text without passwords.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
import zstandard

from flushlab import atomic
from flushlab.errors import StorageError, UsageError
from flushlab.redact import option_file_without_passwords, without_passwords

CHUNK_BYTES = 4 << 20
LEVEL = 3
"""Of Zstandard: its default."""
OPTION_FILES = re.compile(r"\.(cnf|ini)$")
"""Names of option files, `.mylogin.cnf` among them; they are never sent."""
_MOST_TEXT_BYTES = 64 << 20
"""Longest script of a workload; longer files are searched for no passwords."""

Kind = Literal["build", "files", "data"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, folder or symbolic link.

    Attributes:
        path: relative to the manifest's root.
        mode: permission bits.
        size_bytes, chunks: of a file; hashes of its chunks in order.
        changed_ns: time of modification.
        target: of a symbolic link.
        is_folder: it is one.
        stays: why a file is never sent; then `chunks` has the hash of its text without passwords.
    """

    path: str
    mode: int = 0o755
    size_bytes: int = 0
    chunks: tuple[str, ...] = ()
    changed_ns: int = 0
    target: str | None = None
    is_folder: bool = False
    stays: str = ""

    @property
    def is_file(self) -> bool:
        """Neither folder nor link."""
        return self.target is None and not self.is_folder


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Files that belong together.

    Attributes:
        kind: where they land.
        name: for people.
        root: absolute path of the folder that the entries' paths are relative to.
        entries: folders before their content.
    """

    kind: Kind
    name: str
    root: str
    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """Changes with paths, modes and content."""
        alike = [msgspec.structs.replace(one, changed_ns=0) for one in self.entries]
        return hashlib.sha256(msgspec.json.encode([self.kind, alike])).hexdigest()

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(one.size_bytes for one in self.entries)

    @property
    def files(self) -> Iterator[Entry]:
        """The files among the entries."""
        return (one for one in self.entries if one.is_file)

    def places(self) -> dict[str, list[tuple[Entry, int]]]:
        """The chunks that can be sent, each with all its files and offsets."""
        found = dict[str, list[tuple[Entry, int]]]()
        for entry in self.files:
            for number, digest in enumerate(() if entry.stays else entry.chunks):
                found.setdefault(digest, []).append((entry, number * CHUNK_BYTES))
        return found

    def require_inside(self) -> None:
        """Refuses paths that lead out of the root.

        Raises:
            UsageError: there is one.
        """
        for entry in self.entries:
            path = PurePosixPath(entry.path)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise UsageError(f"{entry.path!r} leads out of the folder that is sent")


def manifest_of(
    kind: Kind,
    name: str,
    root: Path,
    paths: Iterable[Path],
    *,
    stays: Callable[[Path], str] = lambda _: "",
    leave_out: Collection[Path] = (),
    folders: Iterable[Path] = (),
) -> Manifest:
    """Reads files and folders, with all that is in the folders.

    Args:
        kind, name, root: see `Manifest`.
        paths: below the root.
        stays: why a file is never sent; empty if it is.
        leave_out: paths that are not sent.
        folders: further folders, without their content.

    Raises:
        StorageError: a file cannot be read.
    """
    entries = dict[str, Entry]()
    for folder in folders:
        _add_folders(entries, folder.relative_to(root) / "_")
    try:
        for path in paths:
            for one in _walk(path, leave_out, follow=kind != "build"):
                inside = one.relative_to(root)
                _add_folders(entries, inside)
                if inside.parts:
                    entries[str(inside)] = _entry(one, str(inside), stays, follow=kind != "build")
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}") from error
    try:
        "".join(entries).encode()
    except UnicodeEncodeError:
        raise StorageError(
            f"{name} has a file whose name is not UTF-8", hint="rename it: other machines need its name"
        ) from None
    return Manifest(kind=kind, name=name, root=str(root), entries=tuple(entries.values()))


def _add_folders(entries: dict[str, Entry], inside: Path) -> None:
    for above in [*reversed(inside.parents)][1:]:
        entries.setdefault(str(above), Entry(path=str(above), is_folder=True))


def _walk(path: Path, leave_out: Collection[Path], *, follow: bool) -> Iterator[Path]:
    if path in leave_out:
        return
    mode = (path.stat() if follow and path.is_file() else path.lstat()).st_mode
    if stat.S_ISDIR(mode):
        yield path
        for one in sorted(path.iterdir()):
            yield from _walk(one, leave_out, follow=follow)
    elif stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not follow):
        yield path
    elif path.is_dir():
        raise StorageError(f"{path} is a link to a folder", hint="name a folder that has no links to others")


def _entry(path: Path, name: str, stays: Callable[[Path], str], *, follow: bool) -> Entry:
    if path.is_symlink() and not follow:
        return Entry(path=name, target=os.readlink(path))  # noqa: PTH115
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return Entry(path=name, mode=mode, is_folder=True)
    why = stays(path)
    return Entry(
        path=name,
        mode=mode,
        size_bytes=status.st_size,
        changed_ns=status.st_mtime_ns,
        chunks=(digest_without_passwords(path),) if why else tuple(map(digest_of, pieces(path))),
        stays=why,
    )


def pieces(file: Path) -> Iterator[bytes]:
    """A file in chunks."""
    with file.open("rb") as handle:
        while piece := handle.read(CHUNK_BYTES):
            yield piece


def digest_of(piece: bytes) -> str:
    """The hash that names a chunk."""
    return hashlib.sha256(piece).hexdigest()


def pack(piece: bytes) -> bytes:
    """A chunk as it travels."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(piece)


def unpack(packed: bytes) -> bytes:
    """The chunk of a packed one; empty if it is none."""
    with suppress(zstandard.ZstdError, MemoryError):
        if zstandard.frame_content_size(packed) <= CHUNK_BYTES:
            return zstandard.ZstdDecompressor().decompress(packed)
    return b""


def text_of(file: Path) -> str:
    """The text of a script; empty for programs and other binary files.

    Raises:
        OSError: it cannot be read.
    """
    if file.stat().st_size > _MOST_TEXT_BYTES:
        return ""
    content = file.read_bytes()
    return "" if b"\0" in content else content.decode(errors="replace")


def digest_without_passwords(file: Path) -> str:
    """Hash of a text that does not help to guess the passwords in it."""
    hide = option_file_without_passwords if OPTION_FILES.search(file.name) else without_passwords
    return digest_of(hide(text_of(file)).encode())


# -- the receiving side


def prepare(manifest: Manifest, root: Path) -> None:
    """Makes the folders and links, and files of the final sizes.

    Raises:
        OSError: as the system says.
    """
    for entry in manifest.entries:
        path = root / entry.path
        if entry.is_folder:
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        elif entry.target is not None:
            if not path.is_symlink():
                path.symlink_to(entry.target)
        else:
            if path.exists():
                path.chmod(0o600)
            with path.open("ab") as handle:
                handle.truncate(entry.size_bytes)


def missing(manifest: Manifest, root: Path) -> dict[str, None]:
    """The chunks that files below a folder lack, in order; found by hashing these files."""
    found = dict[str, None]()
    for entry in manifest.files:
        if entry.stays:
            continue
        has = [*_digests(root / entry.path)]
        found |= {
            digest: None
            for number, digest in enumerate(entry.chunks)
            if number >= len(has) or has[number] != digest
        }
    return found


def differing(manifest: Manifest, root: Path) -> Iterator[Entry]:
    """The files that are not alike below another folder."""
    return (entry for entry in manifest.files if not is_alike(entry, root / entry.path))


def is_alike(entry: Entry, file: Path) -> bool:
    """Whether a file has the content of an entry."""
    try:
        if entry.stays:
            return (digest_without_passwords(file),) == entry.chunks
        return file.stat().st_size == entry.size_bytes and tuple(_digests(file)) == entry.chunks
    except OSError:
        return False


def looks_alike(entry: Entry, file: Path) -> bool:
    """Whether a file has the size and the time of modification of an entry."""
    try:
        status = file.stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (entry.size_bytes, entry.changed_ns)


def _digests(file: Path) -> Iterator[str]:
    try:
        yield from map(digest_of, pieces(file))
    except OSError:  # what cannot be read is not there
        return


def write(places: Sequence[tuple[Entry, int]], root: Path, piece: bytes) -> None:
    """Writes a chunk to all its places.

    Raises:
        OSError: as the system says.
    """
    for entry, offset in places:
        with (root / entry.path).open("r+b") as handle:
            handle.seek(offset)
            handle.write(piece)


def renew_staying(manifest: Manifest, there: Path, root: Path) -> None:
    """Copies files that are never sent again, where they differ: a password may have changed, which no hash
    knows.

    Raises:
        OSError: as the system says.
    """
    for entry in manifest.files:
        source, target = there / entry.path, root / entry.path
        if entry.stays and is_alike(entry, source) and source.read_bytes() != target.read_bytes():
            try:
                atomic.write(target, source.read_bytes(), mode=stat.S_IMODE(target.stat().st_mode))
            except PermissionError:  # the folder's mode is its source's
                shutil.copyfile(source, target)


def take_local(manifest: Manifest, wanted: Collection[str], there: Path, root: Path) -> None:
    """Copies the wanted chunks, and files that are never sent, from a folder of this machine.

    Raises:
        OSError: as the system says.
    """
    for entry in manifest.files:
        source = there / entry.path
        if entry.stays:
            if is_alike(entry, source):
                shutil.copyfile(source, root / entry.path)
            continue
        if not any(digest in wanted for digest in entry.chunks):
            continue
        with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
            for number, piece in enumerate(pieces(source)):
                if number < len(entry.chunks) and entry.chunks[number] == digest_of(piece):
                    write([(entry, number * CHUNK_BYTES)], root, piece)


def seal(manifest: Manifest, root: Path) -> None:
    """Gives files and folders their modes and times.

    Raises:
        OSError: as the system says.
    """
    for entry in reversed(manifest.entries):
        path = root / entry.path
        if entry.target is None:
            path.chmod(entry.mode)
        if entry.is_file:
            os.utime(path, ns=(entry.changed_ns, entry.changed_ns))


def lacking_bytes(manifest: Manifest, root: Path) -> int:
    """Bytes that the files below a folder still need on the disk."""
    lacking = 0
    for entry in manifest.files:
        with suppress(OSError):
            status = (root / entry.path).stat()
            lacking -= min(status.st_blocks * 512, entry.size_bytes)
        lacking += entry.size_bytes
    return lacking
