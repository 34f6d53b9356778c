"""The examples with real servers: the Alembic suite under pytest's plugin, the Flyway suite under flushlab
test; and the printed containers' arguments, which the servers must take."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest

import flushlab
from flushlab.advice import containers
from flushlab.build import Build
from flushlab.server import Sandbox
from flushlab.settings.catalog import load_catalog
from flushlab.suite.database import Database
from flushlab.suite.profile import throwaway
from tests.conftest import flavors

EXAMPLES = Path(__file__).parents[2] / "examples"
FLYWAY = EXAMPLES / "flyway-suite"
LIBRARIES = "target/classes:target/lib/*"
MIGRATE = f"java -cp '{LIBRARIES}' example.Migrate"
JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
"""Half the processor time of programs that end within seconds."""
JUNIT = ("org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary")

LOAD = """
import os, pathlib, sys, pymysql
where = {key: os.environ["FLUSHLAB_" + key.upper()] for key in ("user", "password", "database")}
with pymysql.connect(unix_socket=os.environ["FLUSHLAB_SOCKET"], autocommit=True, **where) as connection:
    for statement in pathlib.Path(sys.argv[1]).read_text().rstrip().removesuffix(";").split(";"):
        connection.cursor().execute(statement)
"""
"""What prepares a database: runs the script that it is given."""

FLUSHLAB = (sys.executable, "-m", "flushlab")

StartSandbox = Callable[..., Sandbox]


def run(words: Sequence[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.mark.server("mariadb@10.11")
def test_alembic_suite_under_pytests_plugin_with_a_server_per_worker() -> None:
    pytest.importorskip("alembic", reason="Alembic is not installed")
    asked = ("--flushlab", "--flushlab-server=mariadb@10.11", "--flushlab-inputs=migrations/**/*.py")
    prepare = f"--flushlab-prepare={sys.executable} -m alembic upgrade head"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n2", *asked, prepare]
    done = run(words, EXAMPLES / "alembic-suite")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "23 passed" in done.stdout
    assert "template miss" in done.stdout or "template hit" in done.stdout


@pytest.mark.server("mariadb@10.11")
def test_the_python_example_compares_two_policies() -> None:
    words = [sys.executable, "python/flush_policies.py", "--server", "mariadb@10.11"]
    done = run([*words, "--blocks", "2", "--duration", "3"], EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "listens on 127.0.0.1:" in done.stdout
    assert "and took: {'innodb_flush_log_at_trx_commit': 2}" in done.stdout
    assert re.search(r"once per second: [0-9.]+x \[[0-9.]+, [0-9.]+\] ", done.stdout)
    assert "15 trials" in done.stdout
    assert "arms 0 · " in done.stderr


@pytest.mark.server("mariadb@10.11")
def test_a_database_from_python_is_prepared_once_and_can_be_reset(tmp_path: Path) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("CREATE TABLE book (title TEXT);\n")
    said: list[str] = []

    def count(database: Database) -> list[tuple[int]]:
        with (
            pymysql.connect(
                unix_socket=database.socket,
                user=database.user,
                password=database.password,
                database=database.database,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("INSERT INTO book VALUES ('x')")
            cursor.execute("SELECT count(*) FROM book")
            return list(cursor.fetchall())

    prepare = f"{sys.executable} -c {shlex.quote(LOAD)} {schema}"
    with flushlab.database(
        server="mariadb@10.11", prepare=prepare, inputs=[str(schema)], progress=said.append
    ) as database:
        assert (count(database), count(database)) == ([(1,)], [(2,)])
        assert database.reset() > 0
        assert count(database) == [(1,)]
        assert database.password not in repr(database)
    with pytest.raises(pymysql.OperationalError):
        count(database)


@pytest.fixture(scope="module")
def built() -> None:
    """The Flyway suite's classes and libraries, by Maven."""
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    if is_built():
        return
    words = ["mvn", "-B", "-q", "-DskipTests", "process-test-classes"]
    if run([*words, "-o"], FLYWAY, **JAVA).returncode and (done := run(words, FLYWAY, **JAVA)).returncode:
        pytest.skip(f"Maven cannot get the suite's libraries: {done.stdout[-300:]}")


def is_built() -> bool:
    """Nothing has changed since the libraries were copied, which comes last."""
    libraries = FLYWAY / "target" / "lib"
    sources = (FLYWAY / "pom.xml", *(FLYWAY / "src").rglob("*"))
    return libraries.is_dir() and libraries.stat().st_mtime > max(one.stat().st_mtime for one in sources)


@pytest.mark.server("mysql@5.7")
def test_flyway_suite_on_a_template(built: None, tmp_path: Path) -> None:
    template = ("--prepare", MIGRATE, "--inputs=src/main/resources/db/migration/**")
    command = (
        "java",
        "-cp",
        f"target/test-classes:{LIBRARIES}",
        *JUNIT,
        "--scan-classpath=target/test-classes",
    )
    told = tmp_path / "test.json"
    words = (*FLUSHLAB, "test", "--server=mysql@5.7", *template, f"--json={told}", "--", *command)
    done = run(words, FLYWAY, **JAVA)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "97 tests successful" in done.stdout and "0 tests skipped" in done.stdout
    document = json.loads(told.read_text())
    assert document["template"] in ("miss", "hit")
    assert (document["pool"]["taken"], document["pool"]["left"], document["recreated"]) == (10, 0, None)


@pytest.mark.parametrize("server", flavors("mariadb@10.11", "mysql@8.0", first=1))
def test_vitest_suite_with_a_database_for_each_test(server: str, tmp_path: Path) -> None:
    folder = EXAMPLES / "vitest-suite"
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    if not (folder / "node_modules/vitest").is_dir():
        words = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
        if (done := run(words, folder)).returncode:
            pytest.skip(f"npm cannot get the suite's libraries: {done.stderr[-300:]}")
    done, document = side_by_side(server, folder, tmp_path, "npm", "test")
    assert "6 passed (6)" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert (document["pool"]["taken"], document["pool"]["left"]) == (6, 0)


@pytest.mark.parametrize("server", flavors("mysql@8.0", "mariadb@10.11", first=1))
def test_go_suite_with_a_database_for_each_test(server: str, tmp_path: Path) -> None:
    folder = EXAMPLES / "go-suite"
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    if (done := run(["go", "mod", "download"], folder)).returncode:
        pytest.skip(f"go cannot get the suite's libraries: {done.stderr[-300:]}")
    done, document = side_by_side(server, folder, tmp_path, "go", "test", "-count=1", "-v", "./...")
    assert done.stdout.count("--- PASS") == 6
    assert (document["pool"]["taken"], document["pool"]["left"]) == (5, 0)


def side_by_side(
    server: str, folder: Path, tmp_path: Path, *command: str
) -> tuple[subprocess.CompletedProcess[str], Mapping[str, Any]]:
    """A suite on its schema: how it ended, and flushlab's document."""
    told = tmp_path / "test.json"
    prepare = f"{sys.executable} -c {shlex.quote(LOAD)} schema.sql"
    words = ("test", f"--server={server}", f"--prepare={prepare}", "--inputs=schema.sql", f"--json={told}")
    done = run((*FLUSHLAB, *words, "--", *command), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads(told.read_text())


def test_flyway_migrations_are_what_their_script_writes() -> None:
    done = run([sys.executable, "generate.py", "--check"], FLYWAY)
    assert (done.returncode, done.stdout) == (0, "400 migrations, all as generated\n")


@pytest.mark.parametrize("name", flavors("mariadb@10.11", "mysql@5.7", "mysql@9.7", "mysql@8.0", first=3))
def test_servers_take_the_printed_containers_arguments(
    name: str, build: Callable[[str], Build], sandbox: StartSandbox
) -> None:
    image = containers.parse_image(build(name).name)
    words = [one.word for one in containers.arguments(image)]
    wanted = throwaway(image, "memory")
    got = sandbox(name, arguments=words).read_back(wanted)
    assert got.keys() == wanted.keys()
    catalog = load_catalog()
    for setting, value in got.items():
        known = setting in catalog
        here = catalog.here(setting, image.flavor, image.version) if known else None
        assert here.same(wanted[setting], value) if here else str(value) == str(wanted[setting])
