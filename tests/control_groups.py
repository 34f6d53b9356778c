"""Control groups with a limit, for what is said of a limited process. Needs root."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.machine.cgroup import group_of_self

_IN_V2 = {"blkio": "io"}


@contextmanager
def limited(pid: int, controller: str, v1: tuple[str, str], v2: tuple[str, str]) -> Iterator[None]:
    """Limits a process meanwhile.

    Args:
        pid: of the process.
        controller: as v1 names it.
        v1: the file of the limit in a hierarchy of version 1, and its content.
        v2: the same of version 2.

    Raises:
        OSError: no group with that limit can be made here.
    """
    own = group_of_self(controller)
    if own is None:
        raise OSError(errno.ENOSYS, f"there is no control group for {controller}")
    group = own.top / f"flushlab-limited-{pid}"
    group.mkdir()
    try:
        if own.version == 2:
            (own.top / "cgroup.subtree_control").write_text(f"+{_IN_V2.get(controller, controller)}")
        file, content = v1 if own.version == 1 else v2
        (group / file).write_text(content)
        (group / "cgroup.procs").write_text(str(pid))
        try:
            yield
        finally:
            (own.top / "cgroup.procs").write_text(str(pid))
    finally:
        group.rmdir()


@contextmanager
def writes_limited(pid: int, disk_number: tuple[int, int], per_s: int) -> Iterator[None]:
    """Limits a process to so many writes per second on a disk meanwhile; an OSError as of `limited`."""
    disk = "{}:{}".format(*disk_number)
    v1 = ("blkio.throttle.write_iops_device", f"{disk} {per_s}")
    with limited(pid, "blkio", v1, ("io.max", f"{disk} wiops={per_s}")):
        yield
