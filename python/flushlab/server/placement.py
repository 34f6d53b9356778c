"""Which settings a sandbox takes: what says where it is, it sets itself.

Server layer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.settings.catalog import canonical

PLACED = frozenset(
    {
        *("basedir", "bind_address", "datadir", "init_file", "lc_messages_dir", "log_error", "pid_file"),
        *("plugin_dir", "port", "skip_networking", "socket", "tmpdir", "user"),
    }
)
"""Variables that a sandbox sets itself: they say where it is, not how it works."""

_VARIABLE = re.compile(r"[a-z][a-z0-9_.]*")


def check_names(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Settings under their variables' names.

    Raises:
        UsageError: a name is no variable's, or is one that the sandbox sets itself.
    """
    checked = {canonical(name): value for name, value in settings.items()}
    for name in checked:
        if name in PLACED:
            raise UsageError(f"{name} is set by the sandbox itself", hint="leave it out of the settings")
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a server variable")
    return checked
