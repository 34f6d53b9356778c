"""Content: files of one machine with their hashes, and the same files on another machine.

Fleet layer; no Ray, no network. There is no journal: what has arrived is found by hashing files, so that a
transfer that was interrupted goes on with the files that are not whole.

Files with passwords stay where they are (`Entry.stays`). The receiving machine needs its own copy at the same
path; the entry has the hash of the text without passwords.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from flushlab import atomic
from flushlab.errors import StorageError, UsageError
from flushlab.redact import option_file_without_passwords, without_passwords

OPTION_FILES = re.compile(r"\.(cnf|ini)$")
"""Names of option files, `.mylogin.cnf` among them; they are never sent."""
_MOST_TEXT_BYTES = 64 << 20
"""Longest script of a workload; longer files are searched for no passwords."""

Kind = Literal["build", "files", "data"]


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`digest`: SHA-256 of a file; of one that stays, of its text without passwords. `stays`: why it is never
    sent."""

    path: str
    mode: int = 0o755
    size_bytes: int = 0
    digest: str = ""
    changed_ns: int = 0
    target: str | None = None
    is_folder: bool = False
    stays: str = ""


class ContentManifest(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    name: str
    root: str
    entries: tuple[FileEntry, ...]

    @property
    def digest(self) -> str:
        alike = [msgspec.structs.replace(entry, changed_ns=0) for entry in self.entries]
        return hashlib.sha256(msgspec.json.encode([self.kind, alike])).hexdigest()

    @property
    def files(self) -> Iterator[FileEntry]:
        return (entry for entry in self.entries if entry.target is None and not entry.is_folder)

    def require_inside(self) -> None:
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
) -> ContentManifest:
    entries = dict[str, FileEntry]()

    def add_above(inside: Path) -> None:
        for above in [*reversed(inside.parents)][1:]:
            entries.setdefault(str(above), FileEntry(path=str(above), is_folder=True))

    for folder in folders:
        add_above(folder.relative_to(root) / "_")
    try:
        for path in paths:
            for found in _walk(path, leave_out, follow=kind != "build"):
                inside = found.relative_to(root)
                add_above(inside)
                if inside.parts:
                    entries[str(inside)] = _entry(found, str(inside), stays, follow=kind != "build")
    except OSError as error:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}") from error
    try:
        "".join(entries).encode()
    except UnicodeEncodeError:
        raise StorageError(
            f"{name} has a file whose name is not UTF-8", hint="rename it: other machines need its name"
        ) from None
    return ContentManifest(kind=kind, name=name, root=str(root), entries=tuple(entries.values()))


def _walk(path: Path, leave_out: Collection[Path], *, follow: bool) -> Iterator[Path]:
    if path in leave_out:
        return
    mode = (path.stat() if follow and path.is_file() else path.lstat()).st_mode
    if stat.S_ISDIR(mode):
        yield path
        for inside in sorted(path.iterdir()):
            yield from _walk(inside, leave_out, follow=follow)
    elif stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not follow):
        yield path
    elif path.is_dir():
        raise StorageError(f"{path} is a link to a folder", hint="name a folder that has no links to others")


def _entry(path: Path, name: str, stays: Callable[[Path], str], *, follow: bool) -> FileEntry:
    if path.is_symlink() and not follow:
        return FileEntry(path=name, target=os.readlink(path))  # noqa: PTH115
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return FileEntry(path=name, mode=mode, is_folder=True)
    why = stays(path)
    return FileEntry(
        path=name,
        mode=mode,
        size_bytes=status.st_size,
        changed_ns=status.st_mtime_ns,
        digest=_digest_without_passwords(path) if why else digest_of(path),
        stays=why,
    )


def digest_of(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def text_of(file: Path) -> str:
    if file.stat().st_size > _MOST_TEXT_BYTES:
        return ""
    content = file.read_bytes()
    return "" if b"\0" in content else content.decode(errors="replace")


def _digest_without_passwords(file: Path) -> str:
    """Hash of a text that does not help to guess the passwords in it."""
    hide = option_file_without_passwords if OPTION_FILES.search(file.name) else without_passwords
    return hashlib.sha256(hide(text_of(file)).encode()).hexdigest()


# -- on the receiving machine


def is_alike(entry: FileEntry, file: Path) -> bool:
    try:
        if entry.stays:
            return _digest_without_passwords(file) == entry.digest
        return file.stat().st_size == entry.size_bytes and digest_of(file) == entry.digest
    except OSError:
        return False


def looks_alike(entry: FileEntry, file: Path) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (entry.size_bytes, entry.changed_ns)


def missing(manifest: ContentManifest, root: Path) -> list[FileEntry]:
    return [entry for entry in manifest.files if not entry.stays and not is_alike(entry, root / entry.path)]


def prepare(manifest: ContentManifest, root: Path) -> None:
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


def copy_staying(manifest: ContentManifest, there: Path, root: Path) -> None:
    """Copies files that are never sent from their path on this machine, where they differ: a password may
    have changed, which no hash shows."""
    for entry in manifest.files:
        source, target = there / entry.path, root / entry.path
        if entry.stays and is_alike(entry, source) and source.read_bytes() != target.read_bytes():
            try:
                atomic.write(target, source.read_bytes(), mode=stat.S_IMODE(target.stat().st_mode))
            except PermissionError:  # the folder's mode is its source's
                shutil.copyfile(source, target)


def seal(manifest: ContentManifest, root: Path) -> None:
    for entry in reversed(manifest.entries):
        path = root / entry.path
        if entry.target is None:
            path.chmod(entry.mode)
        if entry.digest:
            os.utime(path, ns=(entry.changed_ns, entry.changed_ns))
