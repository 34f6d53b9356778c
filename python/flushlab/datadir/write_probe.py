"""Write probe: small synchronous writes as fast as one process can, run as a script in a child.

Datadir layer; `disk_limit` runs it inside the limited group, so that only the child is limited. It imports
the standard library only and is started as a plain file. It prints one line of JSON: writes per second with
O_DIRECT (`direct`), and with an fdatasync after each (`synced`).

The writes overwrite blocks that were written and synced before the clock starts: writes that extend a file
would add the journal's own.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time

BLOCK_BYTES = 4096
BLOCKS = 256


def probe(path: str, procs: str, seconds: float) -> dict[str, float]:
    """Joins the group whose list of processes is the file `procs`, then measures for `seconds` each way."""
    block = mmap.mmap(-1, BLOCK_BYTES)  # anonymous memory is page-aligned, as O_DIRECT needs it
    block.write(b"\xa5" * BLOCK_BYTES)
    plain = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for index in range(BLOCKS):
        os.pwrite(plain, block, index * BLOCK_BYTES)
    os.fsync(plain)
    direct = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    with open(procs, "w") as joined:  # noqa: PTH123 (one import less in a script that is started cold)
        joined.write(str(os.getpid()))
    return {
        "direct": _rate(direct, block, seconds, sync=False),
        "synced": _rate(plain, block, seconds, sync=True),
    }


def _rate(descriptor: int, block: mmap.mmap, seconds: float, *, sync: bool) -> float:
    start = now = time.monotonic()
    count = 0
    while now - start < seconds:
        os.pwrite(descriptor, block, count % BLOCKS * BLOCK_BYTES)
        if sync:
            os.fdatasync(descriptor)
        count += 1
        now = time.monotonic()
    return count / (now - start)


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1], sys.argv[2], float(sys.argv[3]))))  # noqa: T201 (its whole purpose)
