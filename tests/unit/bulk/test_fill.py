"""`flushlab fill`: what is refused before a server is started or asked."""

from __future__ import annotations

import pytest

from flushlab.bulk.fill import fill
from flushlab.errors import UsageError


@pytest.mark.usefixtures("private_home")
@pytest.mark.parametrize(
    ("database", "dsn"),
    [("MySQL", None), ("sys", "mysql://me:secret@127.0.0.1:1/app"), (None, "mysql://me@127.0.0.1:1/mysql")],
)
def test_no_rows_go_into_a_database_of_the_servers_own(database: str | None, dsn: str | None) -> None:
    with pytest.raises(UsageError, match="is the server's own"):
        fill("users", database=database, dsn=dsn)
