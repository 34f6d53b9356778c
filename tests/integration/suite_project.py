"""A project with migrations and a command that asks its server, for the tests of `flushlab test`."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flushlab.process import all_records
from tests.command import flushlab
from tests.waiting import wait_until

SHM = Path("/dev/shm")

MIGRATE = """
import os, pathlib, pymysql, ssl, sys
c = pymysql.connect(host=os.environ["FLUSHLAB_HOST"], port=int(os.environ["FLUSHLAB_PORT"]), autocommit=True,
                    user=os.environ["FLUSHLAB_USER"], password=os.environ["FLUSHLAB_PASSWORD"],
                    database=os.environ["FLUSHLAB_DATABASE"], ssl_disabled=True)
c = c.cursor()
c.execute("CREATE TABLE IF NOT EXISTS schema_migrations (version VARCHAR(200) PRIMARY KEY)")
c.execute("SELECT version FROM schema_migrations")
done = {row[0] for row in c.fetchall()}
for file in sorted(pathlib.Path("db").glob("*.sql")):
    if file.name not in done:
        print("applying", file.name, flush=True)
        for statement in file.read_text().split(";"):
            if statement.strip():
                c.execute(statement)
        c.execute("INSERT INTO schema_migrations VALUES (%s)", [file.name])
"""


class Project:
    """A folder with migrations, and `flushlab test` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "db").mkdir()
        (folder / "migrate.py").write_text(MIGRATE)
        self.mark = secrets.token_hex(4)
        for number in (1, 2):
            self.migration(number, f"CREATE TABLE t{number} (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")

    def migration(self, number: int, sql: str) -> None:
        (self.folder / f"db/V{number}.sql").write_text(
            f"-- {self.mark}\n{sql};\nINSERT INTO t1 (v) VALUES (7)"
        )

    def words(self, *more: str, prepare: bool = True) -> list[str]:
        prepared = ["--prepare", f"{sys.executable} migrate.py", "--inputs", "db/*.sql"] if prepare else []
        return [sys.executable, "-m", "flushlab", "test", *prepared, *more]

    def test(
        self, *more: str, code: int = 0, prepare: bool = True, under: Sequence[str] = ()
    ) -> tuple[dict[str, Any], str, str]:
        """The JSON document, stdout and stderr; `under`: words that start the command."""
        file = self.folder / "out.json"
        file.unlink(missing_ok=True)
        words = self.words("--json", str(file), *more, prepare=prepare)
        if under:
            done = subprocess.run(
                [*under, *words], cwd=self.folder, capture_output=True, text=True, check=False
            )
        else:
            done = flushlab(*words[3:], cwd=self.folder, code=None)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return json.loads(file.read_text()) if file.exists() else {}, done.stdout, done.stderr


def wait_until_memory_is_free() -> None:
    """No server is left in memory whose flushlab is gone; other tests kill theirs at the same time."""
    wait_until(lambda: not _left_in_memory(), "no server is left in memory")


def _left_in_memory() -> list[str]:
    return [
        record.name
        for record in all_records()
        if str(SHM) in str(record.folders) and not record.owner.alive()
    ]


def python(code: str) -> list[str]:
    """A command that has a cursor `c` and runs `code`."""
    connect = """
        import os, pymysql
        own = lambda name: os.environ["FLUSHLAB_" + name]
        at = lambda **more: pymysql.connect(user=own("USER"), password=own("PASSWORD"), autocommit=True,
                                            database=own("DATABASE"), ssl_disabled=True, **more)
        tcp = lambda n="": at(host=own("HOST" + n), port=int(own("PORT" + n))).cursor()
        def ask(c, sql):
            c.execute(sql)
            return c.fetchall()
        c = tcp()
    """
    return ["--", sys.executable, "-c", textwrap.dedent(connect) + textwrap.dedent(code)]
