"""A process that makes, uses and removes disks over and over, to be killed; tells what it is doing."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path

from flushlab.datadir import FaultDisk, FaultImage, remove_record
from flushlab.process import reap
from flushlab.record import Failure

PHASES = ("set-up", "use", "removal", "image", "keeping", "janitor")
SIZE_BYTES = 16 << 20


def over_and_over(told: Connection, folder: Path, home: str) -> None:
    """Sends what it begins with, and with which disk."""
    os.environ["FLUSHLAB_HOME"] = home
    os.setsid()
    while True:
        disk = FaultDisk(folder, SIZE_BYTES, record=True)
        told.send(("set-up", disk.name))
        disk.open()
        told.send(("use", disk.name))
        disk.start_recording()
        for _ in range(5):
            (disk.mount / "file").write_bytes(b"x" * 100_000)
            disk.write_out()
        told.send(("removal", disk.name))
        disk.close()
        image = FaultImage(disk.record, 1, Failure(kind="power"), 0, folder)
        told.send(("image", image.name))
        with image:
            image.show(2, Failure(kind="os"), 0)
        remove_record(disk.record)
        kept = FaultDisk(folder, SIZE_BYTES, outlives=True)
        told.send(("keeping", kept.name))
        kept.open().keep("nobody")
        told.send(("janitor", kept.name))
        reap()
