"""What the kernel tells of a process in one line, /proc/PID/stat (proc(5)).

Machine layer; the standard library only, since the guard imports this file alone.
"""

from __future__ import annotations

STATE, PARENT, SESSION, USER_TICKS, SYSTEM_TICKS, START_TICKS = 0, 1, 3, 11, 12, 19
"""Places in the list of `fields`."""


def fields(pid: int | str) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as handle:  # noqa: PTH123
            return parse(handle.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def parse(line: str) -> list[str]:
    return line[line.rindex(")") + 2 :].split()
