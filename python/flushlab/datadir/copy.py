"""Copy of a whole directory tree, sparse files kept sparse, reflinked where the file system can."""

from __future__ import annotations

import subprocess
from pathlib import Path

from flushlab.errors import NoSpace, StorageError


def copy_tree(source: Path, target: Path) -> None:
    """Copies `source` to `target`, a missing or empty directory; the original is only read.

    Raises:
        NoSpace: it does not fit.
        StorageError: it cannot be read or written.
    """
    if target.is_dir():
        target.rmdir()
    command = ["cp", "--archive", "--reflink=auto", "--sparse=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = "".join(done.stderr.strip().splitlines()[-1:])
        kind = NoSpace if "No space" in done.stderr else StorageError
        raise kind(f"{source} cannot be copied to {target}: {reason}")
