"""The recipes of the guide (`--prepare` and `--inputs` of migration tools), tried with the real tools.

Run by hand; needs the package registries, and each tool's runtime (Maven, Node, Rails, Go, Cargo):

    .venv/bin/python benchmarks/recipes.py [--server mariadb@10.11 …] [--tool Knex …] [--folder DIR]

Each tool is installed from its registry; Rails is the system's package. A project of three migrations runs
five times: the first run makes a template (`miss`), the second finds it (`hit`), a fourth migration extends
it (`prefix`), and a broken fifth migration is `refused`, twice: exit code 2, and nothing is kept. The suite
checks that the tables are there. Rails' schema is one file that changes, so its fourth migration is a `miss`.
A tool without its runtime, or that cannot be installed, is skipped: Prisma downloads its schema engine from a
host of its own. With `--folder` the tools are kept there; sqlx compiles for minutes. What they print goes to
`output.txt` beside them. Exits with 1 if a run ended otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

SERVERS = ("mariadb@10.11", "mysql@8.0")
MIGRATIONS = (
    ("author", "CREATE TABLE author (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))"),
    (
        "book",
        "CREATE TABLE book (id INT PRIMARY KEY, author INT, FOREIGN KEY (author) REFERENCES author (id))",
    ),
    ("rows", "INSERT INTO author (name) VALUES ('Ada')"),
    ("tag", "CREATE TABLE tag (id INT PRIMARY KEY)"),
    ("broken", "CREATE TABLE broken (id INT,"),
)
CHECK = """
import os, sys, pymysql
own = {name: os.environ["FLUSHLAB_" + name.upper()] for name in ("host", "user", "password", "database")}
with pymysql.connect(port=int(os.environ["FLUSHLAB_PORT"]), **own).cursor() as cursor:
    cursor.execute("SHOW TABLES")
    missing = set(sys.argv[1:]) - {table for (table,) in cursor}
sys.exit(f"missing: {missing}" if missing else 0)
"""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A migration tool, and how a user would have flushlab run it.

    Attributes:
        needs: programs without which it is skipped.
        install, version: shell commands: one installs it into the current folder, one prints its version.
        files: of the project, but for the migrations.
        path, text: of a migration; one path for all makes one file of them.
        prepare, inputs, env: flushlab's options, as in the guide.
        added: template of the run with one more migration.
    """

    needs: str
    install: str
    version: str
    path: str
    text: str
    prepare: str
    inputs: str
    files: dict[str, str] = {}
    env: str = ""
    added: str = "prefix"


def read_tools() -> dict[str, Tool]:
    """The tools of recipes.toml; one may be `like` another but for what it says."""
    tables = tomllib.loads((Path(__file__).parent / "recipes.toml").read_text())
    wholes = {name: tables.get(table.pop("like", ""), {}) | table for name, table in tables.items()}
    return {name: msgspec.convert(table, Tool) for name, table in wholes.items()}


def main() -> int:
    """Tries each tool on each server."""
    tools = read_tools()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", nargs="+", default=SERVERS)
    parser.add_argument("--tool", nargs="+", choices=tools, default=tools)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="flushlab-recipes-") as name:
        tell("tool", "version", "server", "first", "second", "one more", "broken", "again")
        for tool in chosen.tool:
            folder = (chosen.folder or Path(name)).absolute() / tool
            version, problem = installed(tools[tool], folder)
            if problem:
                tell(tool, f"skipped: {problem}")
                continue
            for server in chosen.server:
                mark = f" # {uuid.uuid4()}"  # no template of an earlier run
                found = [run(tools[tool], folder, server, mark, count) for count in (3, 3, 4, 5, 5)]
                good &= found == ["miss", "hit", tools[tool].added, "refused", "refused"]
                tell(tool, version, server, *found)
    return 0 if good else 1


def tell(*cells: str) -> None:
    """Prints a line of the table."""
    sys.stdout.write("".join(f"{cell:15} " for cell in cells).rstrip() + "\n")
    sys.stdout.flush()


def installed(tool: Tool, folder: Path) -> tuple[str, str]:
    """Installs a tool, unless that was done before; its version, or why it cannot be had."""
    if missing := [need for need in tool.needs.split() if shutil.which(need) is None]:
        return "", f"{' and '.join(missing)} missing"
    write(folder, tool.files)
    done = folder / ".installed"
    for command in (tool.version,) if done.exists() else (tool.install, tool.version):
        run = subprocess.run(
            command, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True
        )
        if run.returncode != 0:
            return "", f"cannot be installed: {(run.stderr or run.stdout).strip()[-200:]}"
    done.touch()
    found = re.search(r"\d+\.\d+\.\d+[.\d]*", run.stdout)
    return found[0] if found else "?", ""


def run(tool: Tool, folder: Path, server: str, mark: str, count: int) -> str:
    """Runs the suite on the first `count` migrations: template, `refused`, or the exit code."""
    write_migrations(tool, folder, count)
    result = folder / "run.json"
    result.unlink(missing_ok=True)
    words = [sys.executable, "-m", "flushlab", "test", "--server", server, "--json", str(result)]
    words += ["--prepare", tool.prepare + mark, "--inputs", tool.inputs]
    words += ["--env", tool.env] if tool.env else []
    words += ["--", sys.executable, "-c", CHECK, "author", "book", *(["tag"] if count > 3 else [])]
    with (folder / "output.txt").open("ab") as output:
        code = subprocess.run(
            words, cwd=folder, env=environment(folder), stdout=output, stderr=output
        ).returncode
    if code == 0:
        return str(json.loads(result.read_text())["template"])
    return (
        "refused" if code == 2 and count == len(MIGRATIONS) and not result.exists() else f"exit code {code}"
    )


def write_migrations(tool: Tool, folder: Path, count: int) -> None:
    """Leaves the first `count` migrations in the project, and no other."""
    files: dict[str, str] = {}
    for n, (name, sql) in enumerate(MIGRATIONS, 1):
        fields = {
            "n": n,
            "before": str(n - 1) if n > 1 else None,
            "name": name,
            "title": name.title(),
            "sql": sql,
        }
        path = tool.path.format(**fields)
        (folder / path).unlink(missing_ok=True)
        if n <= count:
            files[path] = files.get(path, "") + tool.text.format(**fields)
    write(folder, files)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Writes files of a project; those in `bin` may be executed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755 if path.startswith("bin/") else 0o644)


def environment(folder: Path) -> dict[str, str]:
    """With the tools of a folder."""
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


if __name__ == "__main__":
    sys.exit(main())
