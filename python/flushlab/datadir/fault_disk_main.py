"""The program that serves a fault disk: `python -I -S fault_disk_main.py`, with its spec in the file `spec`.

Executed as a program of its own by a guard, in the disk's folder, as root; it serves until it is killed. With
the standard library and the native side only, so that it is up in some 40 ms.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flushlab import _core
else:  # the file alone: the package around it would take ten times as long
    sys.path.append(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
    import _core


def main() -> None:
    try:
        with open("spec", "rb") as spec:  # noqa: PTH123
            _core.serve_fault_disk(spec.read())
    except (OSError, _core.CoreError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
