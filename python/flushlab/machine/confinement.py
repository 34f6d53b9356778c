"""Confinement: a process that may write below its own folders only, by the kernel's Landlock (landlock(7)).

Machine layer; the standard library only, since the guard imports this file alone. Nothing that the process
does takes the rule back, and its children inherit it. Reading stays as it was. Landlock before Linux 5.19
refuses renames between folders, which servers need: there `available` is False.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVS = 38
_LEAST_VERSION = 2
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_TRUNCATE_SINCE = 3
_ENTRIES = 0x3FF0
"""Entries of directories: REMOVE_DIR, REMOVE_FILE, the MAKE_ rights, REFER."""
_DEVICES = ("/dev/null",)

_libc = ctypes.CDLL(None, use_errno=True)


@functools.cache
def version() -> int:
    return int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))


def available() -> bool:
    return version() >= _LEAST_VERSION


def confine(places: list[str]) -> None:
    """This thread and its children write to these places only; without Landlock, nothing happens."""
    if not available():
        return
    file = _WRITE_FILE | (_TRUNCATE if version() >= _TRUNCATE_SINCE else 0)
    ruleset = _call(_CREATE_RULESET, struct.pack("=Q", file | _ENTRIES), ctypes.c_size_t(8), 0)
    for place in (*places, *_DEVICES):
        try:
            handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rights = file | (_ENTRIES if stat.S_ISDIR(os.fstat(handle).st_mode) else 0)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
        os.close(handle)
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _call(number: int, *words: object) -> int:
    done = int(_libc.syscall(number, *words))
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"landlock: {os.strerror(error)}")
    return done
