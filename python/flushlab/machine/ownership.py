"""Ownership: a folder is flushlab's only if flushlab made it, and a mark inside proves that.

Machine layer; the only place that makes and removes folders for flushlab. Standard library only, because the
guard loads this file by itself.

- `make` lets a folder appear with its mark at once, and never where something is already.
- `remove` takes a real directory whose mark holds the values that the caller knows, and nothing else.

A folder that is being made or removed has the name `.flushlab-TOKEN`, with the mark's token of 128 random
bits. It gets that name before its mark goes and keeps it until its mark has come. So whoever knows the token
can tell the leftovers of a kill from folders of others.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat

TYPE_CHECKING = False  # typing and collections.abc would double the guard's start-up time
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MARK = ".flushlab"
"""Name of the mark: a JSON object of strings, `token` among them."""

_MARK_BYTES = 4096
_RENAME_NOREPLACE = 1
_MNT_DETACH, _UMOUNT_NOFOLLOW = 0x2, 0x8
_NOT_MOUNTED = {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}
_NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PARENT = os.O_RDONLY | os.O_DIRECTORY
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def _opened(name: str, flags: int = _FOLDER, *, above: int | None = None, mode: int = 0o600) -> Iterator[int]:
    descriptor = os.open(name, flags, mode, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def new_token() -> str:
    return os.urandom(16).hex()


def make(folder: str, mark: Mapping[str, str], mode: int = 0o700) -> None:
    parent, name = os.path.split(folder)
    limbo = _limbo(mark["token"])
    with _opened(parent, _PARENT) as above:
        if _exists(above, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), folder)
        os.mkdir(limbo, 0o700, dir_fd=above)
        try:
            with _opened(limbo, above=above) as made:
                _write_mark(made, mark)
                os.fchmod(made, mode)
            _rename_new(above, limbo, name, folder)
        except BaseException:
            _clear(above, mark["token"])
            raise


def mark_existing(folder: str, mark: Mapping[str, str]) -> None:
    with _opened(folder) as opened:
        _write_mark(opened, mark)


def _write_mark(folder: int, mark: Mapping[str, str]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with _opened(MARK, flags, above=folder) as file:
        os.write(file, json.dumps({"flushlab": "1", **mark}).encode() + b"\n")


def read_mark(folder: str, above: int | None = None) -> dict[str, str] | None:
    """The mark in a folder, below another one that is open; None for anything that is not a real directory
    with a mark in it."""
    try:
        with _opened(folder, above=above) as opened:
            return _mark(opened)
    except OSError:
        return None


def remove(folder: str, **proof: str) -> bool:
    """Removes a folder if it is a directory whose mark says everything in `proof`.

    With a token in the proof, what a kill has left of it under its passing name goes as well. Symbolic links
    and other file systems below it are not entered.

    Returns:
        False if something is there that is not flushlab's; it was left as it is.

    Raises:
        OSError: it is ours and could not be removed; it keeps its mark.
    """
    parent, name = os.path.split(folder)
    try:
        above = os.open(parent, _PARENT)
    except (FileNotFoundError, NotADirectoryError):
        return True
    try:
        token = proof.get("token")
        if token is None and (mark := read_mark(name, above)) is not None and _proves(mark, proof):
            token = mark["token"]
        if token is not None:
            _put_aside(above, name, token, proof)
            _clear(above, token)
        return not _exists(above, name)
    finally:
        os.close(above)


def unmount(folders: Sequence[str], points: Sequence[str], token: str) -> None:
    """Takes off all that is mounted at these points, each in one of the folders, if its mark has the token.

    Who still has files open there keeps the file system until it ends; nobody else finds it any more.

    Raises:
        OSError: the kernel does not let go of one.
    """
    for point in points:
        folder, name = os.path.split(point)
        if folder not in folders:
            continue
        for place in (folder, os.path.join(os.path.dirname(folder), _limbo(token))):  # noqa: PTH118, PTH120
            if not _proves(read_mark(place), {"token": token}):
                continue
            there = os.path.join(place, name)  # noqa: PTH118
            while _libc.umount2(os.fsencode(there), _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
                continue  # one may lie over another
            code = ctypes.get_errno()
            if code not in _NOT_MOUNTED and _is_other_device(there, place):
                raise OSError(code, os.strerror(code), there)


def _is_other_device(point: str, folder: str) -> bool:
    try:
        return os.stat(point).st_dev != os.stat(folder).st_dev  # noqa: PTH116
    except FileNotFoundError:
        return False


def _put_aside(above: int, name: str, token: str, proof: Mapping[str, str]) -> None:
    try:
        opened = os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        return
    try:
        if not _proves(_mark(opened), {**proof, "token": token}):
            return
        os.rename(name, _limbo(token), src_dir_fd=above, dst_dir_fd=above)
        moved = os.stat(_limbo(token), dir_fd=above, follow_symlinks=False)
        if not os.path.samestat(moved, os.fstat(opened)):  # exchanged by somebody in this very moment
            _rename_new(above, _limbo(token), name, name)
    except FileNotFoundError:  # another process is at the same work
        return
    finally:
        os.close(opened)


def _clear(above: int, token: str) -> None:
    limbo = _limbo(token)
    try:
        with _opened(limbo, above=above) as opened:
            # Its maker may have been killed before the mark was whole: then nothing else is in it.
            if _proves(_mark(opened), {"token": token}) or set(os.listdir(opened)) <= {MARK}:  # noqa: PTH208
                _empty(opened, os.fstat(opened).st_dev, keep=MARK)
                _unlink(MARK, opened)
                os.rmdir(limbo, dir_fd=above)
    except FileNotFoundError:
        return


def _empty(folder: int, device: int, keep: str | None = None) -> None:
    with contextlib.suppress(PermissionError):  # another user's: whether it can be emptied will show
        os.fchmod(folder, 0o700)  # a snapshot's folders are sealed
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == keep:
                continue
            if not entry.is_dir(follow_symlinks=False):
                _unlink(entry.name, folder)
                continue
            with contextlib.suppress(FileNotFoundError):
                with _opened(entry.name, above=folder) as below:
                    if os.fstat(below).st_dev == device:
                        _empty(below, device)
                os.rmdir(entry.name, dir_fd=folder)


def _mark(folder: int) -> dict[str, str] | None:
    try:
        with _opened(MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, above=folder) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return None
            found = json.loads(os.read(file, _MARK_BYTES))
    except (OSError, ValueError):
        return None
    is_mark = isinstance(found, dict) and found.get("flushlab") == "1" and _is_token(found.get("token"))
    return found if is_mark else None


def _is_token(value: object) -> bool:
    return (
        isinstance(value, str) and len(value) == 32 and all(letter in "0123456789abcdef" for letter in value)
    )


def _proves(mark: Mapping[str, str] | None, proof: Mapping[str, str]) -> bool:
    return mark is not None and all(mark.get(name) == value for name, value in proof.items())


def _limbo(token: str) -> str:
    return f".flushlab-{token}"


def _exists(above: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _rename_new(above: int, old: str, new: str, told: str) -> None:
    if _libc.renameat2(above, os.fsencode(old), above, os.fsencode(new), _RENAME_NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code not in _NOT_SUPPORTED:
        raise OSError(code, os.strerror(code), told)
    os.mkdir(new, 0o700, dir_fd=above)
    os.rename(old, new, src_dir_fd=above, dst_dir_fd=above)
