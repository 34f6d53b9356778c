"""What a client said, from MariaDB's general log, with the values that are drawn taken out.

Shared by `scripts/capture_oltp.py`, which records sysbench, and the tests that compare the engine with it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flushlab.record import Endpoint
from flushlab.server import Sandbox

_TEXT = re.compile(r"'((?:\d{11}-)*\d{11})'")
_NUMBER = re.compile(r"(?<![\w'])-?[1-9]\d*")


def sysbench(endpoint: Endpoint, folder: Path, *words: str, database: str = "sbtest") -> str:
    """What sysbench prints. The test is skipped where sysbench is absent."""
    if shutil.which("sysbench") is None:
        pytest.skip("sysbench is not on PATH (apt-get install sysbench)")
    options = folder / "sysbench.cfg"
    options.touch(mode=0o600)
    options.write_text(
        f"mysql-user={endpoint.user}\nmysql-password={endpoint.password}\n"
        f"mysql-socket={endpoint.socket}\nmysql-db={database}\n"
    )
    command = ["sysbench", f"--config-file={options}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def logged(server: Sandbox) -> Iterator[list[tuple[str, str]]]:
    """Collects what is said meanwhile: pairs of command (`Prepare`, `Execute`, `Query`) and text, by
    connection and in order."""
    said: list[tuple[str, str]] = []
    server.query("SET GLOBAL log_output = 'TABLE'")
    server.query("TRUNCATE mysql.general_log")
    server.query("SET GLOBAL general_log = 1")
    try:
        yield said
    finally:
        server.query("SET GLOBAL general_log = 0")
        rows = server.query(
            "SELECT command_type, argument FROM mysql.general_log WHERE thread_id <> CONNECTION_ID()"
            " AND command_type IN ('Prepare', 'Execute', 'Query') ORDER BY thread_id, event_time"
        )
        said += [(str(kind), text(argument)) for kind, argument in rows]


def text(argument: object) -> str:
    return argument.decode() if isinstance(argument, bytes) else str(argument)


def without_values(statement: str) -> str:
    """The statement with N for drawn numbers and C(length) for drawn texts."""
    return _NUMBER.sub("N", _TEXT.sub(lambda found: f"'C{len(found[1])}'", statement))
