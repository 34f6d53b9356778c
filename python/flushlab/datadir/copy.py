"""Copy of a whole directory tree, sparse files kept sparse, reflinked where the file system can."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

from flushlab.errors import NoSpace, StorageError


def copy_tree(source: Path, target: Path, *, leave_out: Collection[str] = ()) -> None:
    """Copies `source` to `target`, a missing or empty directory; the original is only read.

    Args:
        source, target: directories.
        leave_out: names at the top of `source`.

    Raises:
        NoSpace: it does not fit.
        StorageError: it cannot be read or written.
    """
    if target.is_dir():
        target.rmdir()
    what = [source]
    if leave_out:
        target.mkdir(mode=0o700)
        what = [entry for entry in sorted(source.iterdir()) if entry.name not in leave_out]
    command = ["cp", "--archive", "--reflink=auto", "--sparse=auto", *map(str, what), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = "".join(done.stderr.strip().splitlines()[-1:])
        kind = NoSpace if "No space" in done.stderr else StorageError
        raise kind(f"{source} cannot be copied to {target}: {reason}")
