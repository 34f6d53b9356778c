"""Own tables: those that flushlab makes beside the user's for the time of a load, and how it knows them.

Sits in `bulk`. A table of one of these names without flushlab's mark, its comment, is somebody else's: it is
an error, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flushlab.errors import UsageError
from flushlab.server.identifier import quoted
from flushlab.server.protocol import Server

SCRATCH = "flushlab_probe"
_MARK = "made by flushlab fill"


def is_there(server: Server, database: str, name: str, mark: str = _MARK) -> bool:
    """Whether flushlab has made the table.

    Raises:
        UsageError: a table of that name is somebody else's.
    """
    found = server.query(
        "SELECT table_comment FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        (database, name),
    )
    if found and found[0][0] != mark:
        raise UsageError(
            f"the table {database}.{name} was not made by flushlab, which needs that name for a while",
            hint="rename it, or fill another database",
        )
    return bool(found)


def remake(server: Server, database: str, name: str, like: str) -> None:
    """An empty table of flushlab's own, of the shape of another; an earlier one of its mark goes.

    Raises:
        UsageError: a table of that name is somebody else's.
    """
    table = quoted(database, name)
    if is_there(server, database, name):
        server.query(f"DROP TABLE {table}")
    server.query(f"CREATE TABLE {table} LIKE {quoted(database, like)}")
    server.query(f"ALTER TABLE {table} COMMENT = '{_MARK}'")


@contextmanager
def scratch_table(server: Server, database: str, table: str) -> Iterator[str]:
    """An empty table of the same shape, as SQL has it; gone behind it."""
    scratch = quoted(database, SCRATCH)
    remake(server, database, SCRATCH, table)
    try:
        yield scratch
    finally:
        if server.alive():
            server.query(f"DROP TABLE IF EXISTS {scratch}")
