"""A database of its own on a server that tests of `flushlab fill` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flushlab.bulk.fill import fill
from flushlab.bulk.filled import Filled
from flushlab.server import Sandbox


@dataclass
class Target:
    """The database; in statements, `users` is the table there."""

    server: Sandbox
    database: str

    def fill(self, rows: int = 1000, **flags: Any) -> Filled:
        where = {} if "dsn" in flags else {"server": f"sandbox:{self.server.name}"}
        return fill("users", rows=rows, **{"database": self.database, "create": True, **where, **flags})

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.server.query(sql.replace("users", f"{self.database}.users"))

    def count(self) -> int:
        return int(self.query("SELECT COUNT(*) FROM users")[0][0])

    def is_whole(self, rows: int) -> bool:
        """Rows 1 to `rows` are there, none of them twice."""
        return self.query("SELECT COUNT(*), MIN(id), MAX(id), COUNT(DISTINCT email) FROM users") == [
            (rows, 1, rows, rows)
        ]
