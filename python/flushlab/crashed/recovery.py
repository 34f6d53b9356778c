"""Recovery: a crash while the server recovers from one. Sits in `crashed`, below `recorded`.

What the first crash has left is started on a disk that records; once the server is ready it is killed, and
what it had written until then is cut at one of its records, in the same way as the run itself was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flushlab.datadir.fault_disk import FaultImage, trusted
from flushlab.process.passing import passing_folder
from flushlab.record import CrashPoint
from flushlab.server import Sandbox

Open = Callable[[Path, int, Path, bool], FaultImage]
"""An image: the record's folder, the number it is cut at, the folder that it works in, whether it records."""
Start = Callable[[FaultImage, Path], Sandbox]
"""A server on a data directory of an image, ready."""


@contextmanager
def cut_recovery(
    record: Path, point: CrashPoint, datadir: str, work: Path, open_image: Open, start: Start
) -> Iterator[tuple[FaultImage, Path]]:
    """What a crash during the recovery from a crash has left, mounted, and the data directory on it.

    Args:
        record: of the run.
        point: of the first crash; its seed draws the moment of the second one.
        datadir: on the disk.
        work: an existing folder.
        open_image, start: see there.

    Raises:
        StartFailed: the server does not recover from the first crash.
        HarnessError, StorageError: the images cannot be had.
    """
    with passing_folder(work, "recovery", mode=0o711) as folder:
        with open_image(record, point.at, folder, True) as first, trusted(first):
            began = first.position()
            with start(first, first.mount / datadir) as server:
                ended = first.position()
                server.kill()
                moved = server.datadir.relative_to(first.mount)
        at = random.Random(point.seed).randint(began, ended)
        with open_image(first.record, at, work, False) as second, trusted(second):
            there = second.mount / moved  # unless the second crash came before that was on the disk
            yield second, there if there.exists() else second.mount / datadir
