"""What `flushlab test` costs and saves, on real servers.

Run by `make bench`, in parts:

    .venv/bin/python benchmarks/test_suite.py [--part overhead|reset] [--server mysql@5.7] [--rounds 5]
        [--test-seconds 2]

`overhead`: from the start of the command to the start of the suite's, template hit, interpreter included;
and the teardown. `reset`: a database of 40 tables made pristine again, as the caller sees it: the request,
and the first query on a new connection; by a restart, by a clone that is ready since tests take seconds, and
by clones that suites reset faster than they can be made. What templates save: `flyway_suite.py`. Exits with 1
if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OVERHEAD_S = {"mariadb@10.11": 1.0, "mariadb@11.8": 1.0, "mysql@5.7": 1.0, "mysql@8.0": 1.5, "mysql@9.7": 1.5}
SERVERS = tuple(OVERHEAD_S)
TEARDOWN_S = 0.3
RESET_S = 0.040
"""Of a clone that is ready: what PostgreSQL takes for a database from a template."""
TABLES = 40
MIGRATIONS = 400

FLUSHLAB = [sys.executable, "-m", "flushlab", "test"]


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def migrations(count: int = MIGRATIONS) -> list[str]:
    """Migrations of the small kind: tables, columns that come and go, indexes, seed rows."""
    statements = []
    for n in range(count):
        table = n // 10
        match n % 10:
            case 0:
                statements.append(
                    f"CREATE TABLE t{table} (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL,"
                    " made DATETIME NOT NULL, KEY (made))"
                )
            case 1 | 3 | 5:
                statements.append(
                    f"ALTER TABLE t{table} ADD COLUMN c{n % 10} VARCHAR(40) NOT NULL DEFAULT ''"
                )
            case 2 | 4:
                statements.append(f"CREATE INDEX i{n % 10} ON t{table} (c{n % 10 - 1})")
            case 6:
                statements.append(f"ALTER TABLE t{table} DROP COLUMN c1")
            case 7:
                statements.append(f"ALTER TABLE t{table} MODIFY name VARCHAR(120) NOT NULL")
            case _:
                statements.append(f"INSERT INTO t{table} (name, made) VALUES ('a', NOW()), ('b', NOW())")
    return statements


MIGRATE = """
import os, pathlib, pymysql
own = lambda name: os.environ["FLUSHLAB_" + name]
c = pymysql.connect(unix_socket=own("SOCKET"), user=own("USER"), password=own("PASSWORD"),
                    database=own("DATABASE"), autocommit=True).cursor()
c.execute("CREATE TABLE IF NOT EXISTS schema_migrations (version VARCHAR(40) PRIMARY KEY)")
c.execute("SELECT COUNT(*) FROM schema_migrations")
((done,),) = c.fetchall()
for number, line in enumerate(pathlib.Path("migrations.sql").read_text().splitlines()):
    if number >= done:
        c.execute("SELECT COUNT(*) FROM schema_migrations")
        c.execute(line)
        c.execute(f"INSERT INTO schema_migrations VALUES ('{number}')")
"""


class Project:
    """A folder with migrations that `flushlab test` prepares a template from."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self.server = server
        (folder / "migrations.sql").write_text("\n".join(migrations()))
        (folder / "migrate.py").write_text(MIGRATE)

    def run(self, *words: str, options: Sequence[str] = ()) -> dict[str, Any]:
        """The document of one run."""
        out = self.folder / "out.json"
        prepared = ["--prepare", f"{sys.executable} migrate.py", "--inputs", "migrations.sql"]
        command = [*FLUSHLAB, "--server", self.server, "--json", str(out), *prepared, *options]
        subprocess.run([*command, "--", *words], cwd=self.folder, check=True, stderr=subprocess.PIPE)
        return dict(json.loads(out.read_text()))


def overhead(project: Project, rounds: int) -> bool:
    """From `exec` of flushlab to the first moment of the suite's command, by the system's clock."""
    project.run("true")
    befores, teardowns = [], []
    for _ in range(rounds):
        began = time.time()
        result = project.run(
            sys.executable, "-S", "-c", "import time; open('began', 'w').write(str(time.time()))"
        )
        assert result["template"] == "hit"
        befores.append(float((project.folder / "began").read_text()) - began)
        teardowns.append(result["seconds"]["teardown"])
    before, teardown = statistics.median(befores), statistics.median(teardowns)
    bar = OVERHEAD_S[project.server]
    _tell(
        f"overhead  {project.server:13} {before:6.2f} s (bar {bar};"
        f" {min(befores):.2f} to {max(befores):.2f}), teardown {teardown:.2f} s (bar {TEARDOWN_S})"
    )
    return before <= bar and teardown <= TEARDOWN_S


RESETS = """
import os, pymysql, statistics, time, urllib.request
def first():
    own = lambda name: os.environ["FLUSHLAB_" + name]
    c = pymysql.connect(host=own("HOST"), port=int(own("PORT")), user=own("USER"), password=own("PASSWORD"),
                        database=own("DATABASE"), autocommit=True, ssl_disabled=True)
    c.cursor().execute("SELECT COUNT(*) FROM t1")
    return c
c, took = first(), []
for n in range(ROUNDS):
    cursor = c.cursor()
    for table in range(10):
        cursor.execute(f"INSERT INTO t{table} (name, made) VALUES ('x', NOW())")
    cursor.execute("SELECT SLEEP(TEST_S)")
    c.close()
    began = time.monotonic()
    urllib.request.urlopen(os.environ["FLUSHLAB_RESET_URL"], b"").read()
    c = first()
    took.append(time.monotonic() - began)
    cursor = c.cursor()
    cursor.execute("SELECT MAX(id) FROM t1")
    assert cursor.fetchall() == ((LAST,),), "not pristine"
print(statistics.median(took), min(took), max(took))
"""


def reset(project: Project, rounds: int, test_s: float) -> bool:
    """Medians of resets between tests."""

    def measured(how: str, clones: int, test_s: float, bar: str = "", *, undo: bool = False) -> float:
        code = RESETS.replace("ROUNDS", str(max(rounds, 5) * 2)).replace("TEST_S", str(test_s))
        out = project.folder / "resets"
        words = ["sh", "-c", f'{sys.executable} -c "$0" > {out}', code.replace("LAST", "4")]
        log = [] if undo else ["--set", "log_bin=OFF"]  # without one, every reset takes another server
        project.run(*words, options=["--clones", str(clones), *log])
        median, least, most = (1000 * float(text) for text in out.read_text().split())
        _tell(
            f"reset     {project.server:13} {how}, tests of {test_s:4.2f} s: {median:6.0f} ms"
            f" ({bar}{least:.0f} to {most:.0f})"
        )
        return median / 1000

    measured("undone       ", 0, 0.05, undo=True)
    measured("by a restart ", 0, 0.05)
    measured("by two clones", 2, 0.05)
    return measured("by two clones", 2, test_s, f"bar {RESET_S * 1000:.0f}; ") <= RESET_S


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=["overhead", "reset"])
    parser.add_argument("--server", choices=SERVERS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--test-seconds", type=float, default=2.0, help="of a test that leaves time to start a clone"
    )
    chosen = parser.parse_args()
    good = True
    for server in [chosen.server] if chosen.server else SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            project = Project(Path(folder), server)
            if chosen.part in (None, "overhead"):
                good &= overhead(project, chosen.rounds)
            if chosen.part in (None, "reset"):
                good &= reset(project, chosen.rounds, chosen.test_seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
