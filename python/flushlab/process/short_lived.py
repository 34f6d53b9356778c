"""Short-lived: names for files that exist for a moment, so that a kill in that moment leaves nothing long.

Process layer. The name tells which process made it; what the dead have left is swept when somebody passes by.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from flushlab.process.identity import ProcessIdentity, myself, world

_END = ".short-lived"
_MAKER = re.compile(rf"\.(?P<namespace>\d+)\.(?P<pid>\d+)\.(?P<ticks>\d+){re.escape(_END)}$")


def short_lived_name(stem: str) -> str:
    """A hidden name that no other living process uses for the same `stem`."""
    me = myself()
    return f".{stem}.{_namespace()}.{me.pid}.{me.start_ticks}{_END}"


def sweep(folder: Path) -> None:
    """Removes files and empty directories in `folder` whose makers, in this pid namespace, are dead."""
    for path in folder.glob(f".*{_END}"):
        made_by = _MAKER.search(path.name)
        if made_by is None or made_by["namespace"] != _namespace():
            continue
        if ProcessIdentity(pid=int(made_by["pid"]), start_ticks=int(made_by["ticks"])).alive():
            continue
        # Another one may sweep at the same time, and a data root may hold what others have left there.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


def _namespace() -> str:
    """Number of the pid namespace, without its punctuation."""
    return "".join(letter for letter in world().split()[1] if letter.isdigit())
