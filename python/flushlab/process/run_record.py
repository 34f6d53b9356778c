"""Run records: what flushlab runs and makes, written down before it can matter; the janitor goes by them.

Process layer. One JSON file per sandbox or passing folder under `run` in flushlab's home, written by rename.
The guard removes it with the folders. By it, `reap` finds what a power failure or a killed guard leaves
behind. Owned records whose owner is dead are reaped. Kept ones are spared as long as what they go with is
there, and records of other machines always. A record holds the token of its folders' marks: a folder without
that mark is never touched.

Passing folders are made for a while in a place that somebody else may own. A record names each before it is
made, so that after SIGKILL the janitor removes it, in whatever directory it lies.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, Self

import msgspec

from flushlab import atomic
from flushlab.errors import UsageError
from flushlab.machine import home_part, ownership
from flushlab.process.identity import (
    ProcessIdentity,
    kill,
    kill_session,
    machine,
    myself,
    wait_for_end,
    world,
)
from flushlab.undo import undo_all

Kind = Literal["owned", "kept"]

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Of a sandbox. No dots: `k.json` would be the record of `k`."""

_OWN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_BEING_WRITTEN = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.(?P<ticks>\d+)\.being-written")


_NO_NAMELESS_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}
"""open(2), O_TMPFILE: file systems and kernels without it; /proc may be missing."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One sandbox, one run of a server's set-up program, or one passing folder.

    `owned` dies with its owner, `kept` lives until it is stopped. `mounts` go before the folders that they
    are in. `token` is in the folders' marks; empty in records of flushlab 0.1, whose folders had none.
    """

    name: str
    kind: Kind
    world: str
    machine: str = ""
    owner: ProcessIdentity
    guard: ProcessIdentity | None = None
    server: ProcessIdentity | None = None
    folders: tuple[str, ...]
    mounts: tuple[str, ...] = ()
    goes_with: str = ""
    token: str = ""

    @classmethod
    def mine(cls, name: str, *folders: Path, token: str | None = None) -> Self:
        return cls(
            name=name,
            kind="owned",
            world=world(),
            machine=machine(),
            owner=myself(),
            folders=tuple(str(folder) for folder in folders),
            token=token or ownership.new_token(),
        )

    @property
    def is_here(self) -> bool:
        return self.world == world()

    @property
    def is_of_this_machine(self) -> bool:
        """True if this machine started it, now or before its last boot; a home may lie on several's disk."""
        same_boot = self.world.split()[0] == world().split()[0]
        return self.is_here or (not same_boot and self.machine != "" and self.machine == machine())

    def mark(self, what: str, name: str) -> dict[str, str]:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        own = {"token": self.token, "world": self.world, "machine": self.machine}
        return {"what": what, "name": name, **own, "created": created}


def run_folder() -> Path:
    return home_part("run")


def record_path(name: str) -> Path:
    if not _OWN_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid sandbox name", hint=NAME_HINT)
    return run_folder() / f"{name}.json"


NAME_HINT = "use at most 40 lowercase letters, digits, hyphens and underscores"


def claim(record: RunRecord) -> None:
    temporary = _write_beside(record)
    try:
        record_path(record.name).hardlink_to(temporary)  # fails if it exists, unlike rename
    except FileExistsError:
        raise _taken(record.name) from None
    finally:
        temporary.unlink()


def require_free(name: str) -> None:
    if record_path(name).exists():
        raise _taken(name)


def rewrite(record: RunRecord) -> None:
    _write_beside(record).replace(record_path(record.name))


def read(name: str) -> RunRecord | None:
    return _read(record_path(name))


def all_records() -> list[RunRecord]:
    files = [file for file in sorted(run_folder().glob("*.json")) if not file.name.startswith(".")]
    return [record for file in files if (record := _read(file)) is not None]


def that_go_with(name: str) -> list[RunRecord]:
    return [record for record in all_records() if record.kind == "kept" and record.goes_with == name]


def remove(name: str) -> None:
    record_path(name).unlink(missing_ok=True)


def sweep() -> None:
    for file in run_folder().glob(".*.being-written"):
        named = _BEING_WRITTEN.fullmatch(file.name)
        record = _read(file)
        if named is None or record is None or record.name != named["name"]:
            continue
        writer = ProcessIdentity(pid=int(named["pid"]), start_ticks=int(named["ticks"]))
        if record.is_of_this_machine and not (record.is_here and writer.alive()):
            file.unlink(missing_ok=True)


def _taken(name: str) -> UsageError:
    return UsageError(
        f"a sandbox named {name!r} already exists",
        hint="choose another name; `flushlab server status` lists those that are kept",
    )


def _read(file: Path) -> RunRecord | None:
    return atomic.read_json(file, RunRecord)


def _write_beside(record: RunRecord) -> Path:
    me = myself()
    temporary = run_folder() / f".{record.name}.{me.pid}.{me.start_ticks}.being-written"
    content = msgspec.json.encode(record)
    try:
        _name_whole(temporary, content)
    except OSError as error:
        if error.errno not in _NO_NAMELESS_FILES:
            raise
        temporary.write_bytes(content)
    return temporary


def _name_whole(file: Path, content: bytes) -> None:
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        nameless = os.open(file.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            os.write(nameless, content)
            # With a folder it is linkat(2), which follows the link.
            os.link(f"/proc/self/fd/{nameless}", file.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(nameless)
    finally:
        os.close(folder)


@contextmanager
def passing_folder(parent: Path, what: str, *, name: str | None = None, mode: int = 0o700) -> Iterator[Path]:
    folder = parent / f"flushlab-{what}-{secrets.token_hex(4)}"
    record = RunRecord.mine(folder.name, folder)
    claim(record)
    try:
        ownership.make(str(folder), record.mark(what, name or folder.name), mode)
        yield folder
    finally:
        # What cannot be removed keeps its record: the janitor tries again.
        with suppress(OSError):
            ownership.remove(str(folder), token=record.token)
            remove(record.name)


def make_lasting(folder: Path, what: str, **more: str) -> None:
    record = RunRecord.mine(f"make-{secrets.token_hex(4)}", folder)
    claim(record)
    try:
        ownership.make(str(folder), {**record.mark(what, folder.name), **more})
    finally:
        remove(record.name)


def discard(folder: Path, **proof: str) -> bool:
    """Removes a folder that no record names; false if it is not flushlab's: it was left as it is."""
    mark = ownership.read_mark(str(folder))
    if mark is None:
        return ownership.remove(str(folder), **proof)
    record = RunRecord.mine(f"discard-{secrets.token_hex(4)}", folder, token=mark["token"])
    claim(record)
    gone = ownership.remove(str(folder), **proof)
    remove(record.name)
    return gone


_GUARD_S = 10.0


def reap() -> list[str]:
    sweep()
    reaped = []

    def reap_one(record: RunRecord) -> None:
        with suppress(OSError):  # it keeps its record: another time
            reap_record(record)
            reaped.append(record.name)

    undo_all(partial(reap_one, record) for record in all_records() if _abandoned(record))
    return reaped


def reap_record(record: RunRecord) -> list[Path]:
    if record.is_here:
        if record.guard is not None and not wait_for_end(record.guard, _GUARD_S):  # it may be at this work
            kill(record.guard)
        if record.server is not None:
            kill_session(record.server, record.folders)
    # First: what lies on its disk needs no removal.
    undo_all(partial(reap_record, other) for other in that_go_with(record.name))
    ownership.unmount(record.folders, record.mounts, record.token)
    spared = []

    def remove_folder(folder: str) -> None:
        if not ownership.remove(folder, token=record.token):
            spared.append(Path(folder))

    undo_all(partial(remove_folder, folder) for folder in record.folders)
    remove(record.name)
    return spared


def _abandoned(record: RunRecord) -> bool:
    if record.kind == "kept":
        is_lost = record.goes_with and read(record.goes_with) is None
        return bool(is_lost) and record.is_of_this_machine
    if record.is_here:
        return not record.owner.alive()
    return record.is_of_this_machine  # not so another pid namespace (a container), which looks after its own
