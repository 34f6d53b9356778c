"""The server's open files: classed by name, with the flags they are open with.

Telemetry layer; reads /proc/PID/fd and fdinfo, which takes root or the server's own user. The classes are
`record.FILE_CLASSES`. A setting such as O_DIRECT shows in the flags, whatever the server's variables say.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

import msgspec

from flushlab.machine.mounts import IN_MEMORY, parse_mountinfo
from flushlab.server.protocol import Server

_FLAGS = {"O_DIRECT": os.O_DIRECT, "O_DSYNC": os.O_DSYNC, "O_SYNC": os.O_SYNC}

_NAMES = (
    ("redo", re.compile(r"ib_logfile\d+|#ib_redo\d+(_tmp)?")),
    ("doublewrite", re.compile(r".*\.b?dblwr|xb_doublewrite")),
    ("undo", re.compile(r"undo_?\d+|.*\.ibu")),
    ("other", re.compile(r"ibtmp\d+|.*\.ibt|.*_tmp")),
    ("data", re.compile(r"ibdata\d+|.*\.ibd")),
)
"""Names as the servers give them: redo since MySQL 8.0.30 in `#innodb_redo`, doublewrite since 8.0.20 in
`#ib_16384_0.dblwr` (before, and on MariaDB, in ibdata1), undo as undo001, undo_001 or *.ibu."""


REMOVED = ""
"""In place of the name of files that are gone."""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    binlog: str = ""
    system: tuple[str, ...] = ()


class OpenFile(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is as the server sees it, and ends with ` (deleted)` without a name; `device` is (major,
    minor)."""

    path: str
    kind: str
    flags: tuple[str, ...]
    device: tuple[int, int]
    inode: int
    filesystem: str

    @property
    def in_memory(self) -> bool:
        return self.filesystem in IN_MEMORY


def names(server: Server) -> Names:
    return names_in(
        dict(
            server.query(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin_basename', 'innodb_data_file_path')"
            )
        )
    )


def names_in(variables: Mapping[str, str]) -> Names:
    files = (part.partition(":")[0] for part in variables.get("innodb_data_file_path", "").split(";"))
    return Names(
        binlog=PurePath(variables.get("log_bin_basename") or "").name,
        system=tuple(PurePath(file).name for file in files if file),
    )


def open_files(pid: int, called: Names) -> list[OpenFile] | None:
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        mountinfo = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    mounted = {mount.device_number: mount.filesystem for mount in parse_mountinfo(mountinfo)}
    return list(_regular(descriptors, mounted, called))


def _regular(
    descriptors: list[Path], mounted: Mapping[tuple[int, int], str], called: Names
) -> Iterator[OpenFile]:
    for descriptor in descriptors:
        try:
            path = str(descriptor.readlink())
            facts = descriptor.stat()
            if not stat.S_ISREG(facts.st_mode):
                continue
            flags = parse_flags((descriptor.parent.parent / "fdinfo" / descriptor.name).read_text())
        except OSError:  # closed meanwhile
            continue
        device = (os.major(facts.st_dev), os.minor(facts.st_dev))
        yield OpenFile(
            path=path,
            kind=classify(path, called),
            flags=flags,
            device=device,
            inode=facts.st_ino,
            filesystem=mounted.get(device, ""),
        )


def classify(path: str, called: Names) -> str:
    name = PurePath(path).name
    if path.endswith(" (deleted)"):
        return "other"
    if called.binlog and re.fullmatch(re.escape(called.binlog) + r"(\.\d+|\.index|-\d+\.ibb)", name):
        return "binlog"
    if name in called.system:
        return "data"
    return next((kind for kind, pattern in _NAMES if pattern.fullmatch(name)), "other")


def inside(datadir: str, path: str) -> str:
    name = PurePath(path)
    return str(name.relative_to(datadir) if name.is_relative_to(datadir) else name)


def parse_flags(fdinfo: str) -> tuple[str, ...]:
    """The flags of /proc/PID/fdinfo/FD that matter here (proc(5): octal); O_SYNC includes O_DSYNC."""
    found = re.search(r"^flags:\s*([0-7]+)$", fdinfo, re.MULTILINE)
    bits = int(found[1], 8) if found else 0
    flags = {name for name, bit in _FLAGS.items() if bits & bit == bit}
    return tuple(sorted(flags - {"O_DSYNC"} if "O_SYNC" in flags else flags))
