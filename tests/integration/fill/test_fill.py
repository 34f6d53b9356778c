"""`flushlab fill` with real servers: methods, refusals, and loads that are cut short and resumed."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from flushlab.build import Build
from flushlab.bulk import choice
from flushlab.bulk.fill import fill
from flushlab.bulk.filled import LoadMethod
from flushlab.datadir import DataRoot
from flushlab.errors import FlushlabError, ServerDied, ServerError, UsageError
from flushlab.record.running import FillProgress
from flushlab.server import Sandbox, SandboxSpec
from flushlab.server.control import connect
from flushlab.server.sql import quoted
from tests.conftest import StartSandbox, flavors
from tests.integration.fill.target import Target
from tests.waiting import PATIENCE_S, wait_until

RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
ROWS, MANY = 8_000, 20_000


@pytest.fixture(scope="module")
def mariadb(shared_sandbox: StartSandbox) -> Sandbox:
    return shared_sandbox(settings=RELAXED, kept=True)


def at(share: float, act: Callable[[], object]) -> Callable[[FillProgress], None]:
    """Acts once a load has so much of its rows."""
    left = [act]

    def show(far: FillProgress) -> None:
        if left and far.rows >= share * far.total:
            left.pop()()

    return show


@contextmanager
def second_half_held(target: Target) -> Iterator[None]:
    """No row of the second half of `ROWS` is loaded, so that no load ends before a test acts in its middle.

    With two connections the first half always gets in: the other waits before its first row, when it has not
    yet taken the table's AUTO_INCREMENT lock. Makes the table, empty; at the end nobody is connected to the
    database any more, and rows go in again.
    """
    server = target.server
    target.fill(1)
    target.query("TRUNCATE TABLE users")
    target.query(
        f"CREATE TRIGGER {target.database}.held BEFORE INSERT ON users FOR EACH ROW"
        f" SET @held = IF(NEW.id > {ROWS // 2}, GET_LOCK('{target.database}', {PATIENCE_S}), 0)"
    )
    connected = f"SELECT id FROM information_schema.processlist WHERE db = '{target.database}'"
    with connect(server.endpoint, "socket") as holder:
        holder.cursor().execute(f"SELECT GET_LOCK('{target.database}', 0)")
        yield
    if not server.alive():
        server.start_again()
    for (number,) in server.query(connected):
        with suppress(ServerError):  # it has ended
            server.query(f"KILL {number}")
    wait_until(lambda: server.query(connected) == [], "nobody is connected to the database")
    server.query(f"DROP TRIGGER {target.database}.held")


# -- methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", flavors("mysql@8.0", "mysql@5.7"))
def test_rows_are_loaded_and_read_back_on_every_server(
    sandbox: StartSandbox, build: str, tmp_path: Path
) -> None:
    target = Target(sandbox(build, settings=RELAXED, kept=True), "app")
    infile = target.server.query("SELECT @@global.local_infile, @@global.sync_binlog")
    done = target.fill(2000, method="load-data", threads=2)
    assert (done.rows, done.verified, done.tables[0].sampled) == (2000, True, 1000)
    assert target.is_whole(2000)
    assert target.server.query("SELECT @@global.local_infile, @@global.sync_binlog") == infile
    if target.server.identity.version == (8, 0, 15):
        load_data_of_a_geometry_is_refused_and_rows_are_inserted(target, tmp_path / "places.toml")


def load_data_of_a_geometry_is_refused_and_rows_are_inserted(target: Target, plan: Path) -> None:
    plan.write_text(
        """[table.place]\nrows = 300\nprimary_key = "id"\n[table.place.column]\n"""
        """id = { type = "INT NOT NULL", generator = "sequence" }\n"""
        """at = { type = "POINT NOT NULL", generator = "geometry" }\n"""
    )
    server = f"sandbox:{target.server.name}"
    with pytest.raises(ServerError, match=r"refuses LOAD DATA LOCAL: .* default value") as refused:
        fill(plan, server=server, database="geo", create=True, method="load-data", threads=1)
    assert "--method insert" in (refused.value.hint or "")
    done = fill(plan, server=server, database="geo", continue_=True)
    assert (done.method.kind, done.rows, done.verified) == ("insert", 300, True)
    assert [warning.slug for warning in done.warnings] == ["load-data-refused"]


@pytest.mark.parametrize("method", ["load-data", "insert", "single"])
def test_every_method_brings_the_same_rows(target: Target, method: str) -> None:
    done = target.fill(300, method=method, threads=3)
    assert (done.method.kind, done.rows) == (method, 300)
    row = "CONCAT_WS(',', id, email, user_type, created_at)"
    digest = f"SELECT MD5(GROUP_CONCAT(MD5({row}) ORDER BY id)) FROM users"
    target.server.query("SET SESSION group_concat_max_len = 1000000")
    first = target.query(digest)
    target.fill(300, method="load-data", threads=1, truncate=True)
    target.server.query("SET SESSION group_concat_max_len = 1000000")
    assert target.query(digest) == first


def test_auto_says_what_it_tried_and_leaves_only_the_table(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "LEAST_ROWS", 10_000)
    said: list[str] = []
    done = target.fill(10_000, progress=said.append)
    assert done.tried and done.method in [one.method for one in done.tried]
    assert any(done.method.words in line and "tried" in line for line in said)
    assert target.server.query(f"SHOW TABLES FROM {target.database}") == [("users",)]
    assert target.is_whole(10_000)


# -- tables that are not as they must be ---------------------------------------------------------------------


def test_a_table_with_rows_is_refused_appended_to_or_truncated(target: Target) -> None:
    target.fill(500)
    with pytest.raises(UsageError, match="has 500 rows already") as refused:
        target.fill(500)
    assert "--append" in (refused.value.hint or "") and "--truncate" in (refused.value.hint or "")
    assert target.fill(200, append=True).tables[0].total == 700
    assert target.is_whole(700)
    assert target.fill(300, truncate=True).tables[0].total == 300
    assert target.is_whole(300)


def test_names_may_hold_anything(mariadb: Sandbox, tmp_path: Path) -> None:
    database, table = "a `b`'%s\u2603", "c`%d 'x'"
    plan = tmp_path / "odd.toml"
    plan.write_text(
        f'''[table."{table}"]\nrows = 300\nprimary_key = "i`d"\n[table."{table}".column]\n'''
        """"i`d" = { type = "INT NOT NULL", generator = "sequence" }\n"""
    )
    done = fill(plan, server=f"sandbox:{mariadb.name}", database=database, create=True, threads=2)
    assert [(one.name, one.total, one.sampled) for one in done.tables] == [(table, 300, 300)]
    mariadb.query(f"DROP DATABASE {quoted(database)}")


def test_a_missing_table_is_made_only_when_asked(target: Target) -> None:
    with pytest.raises(UsageError, match="no database"):
        target.fill(10, create=False)


@pytest.mark.parametrize("method", ["load-data", "insert"])
def test_a_duplicate_that_load_data_would_skip_is_an_error_and_nothing_stays(
    target: Target, method: str
) -> None:
    target.fill(1)
    target.query("UPDATE users SET email = 'user400@email.com'")
    with pytest.raises(ServerError, match=r"Duplicate entry 'user400@email\.com'"):
        target.fill(999, append=True, method=method, threads=1)
    assert target.count() == 1


def test_a_column_too_short_is_found_before_anything_is_loaded(target: Target) -> None:
    target.fill(1)
    target.query("ALTER TABLE users MODIFY username VARCHAR(6) NOT NULL")
    with pytest.raises(UsageError, match="cannot hold the plan's rows: Data too long for column 'username'"):
        target.fill(1000, truncate=True)
    assert target.count() == 0


@pytest.mark.parametrize("name", ["flushlab_sample", "flushlab_fill"])
def test_a_table_of_the_user_with_the_name_of_ours_stays(target: Target, name: str) -> None:
    target.fill(1)
    theirs = f"{target.database}.{name}"
    target.query(f"CREATE TABLE {theirs} (a INT PRIMARY KEY)")
    with pytest.raises(UsageError, match=f"{name} was not made by flushlab"):
        target.fill(1000, truncate=True)
    target.query(f"DROP TABLE {theirs}")


def test_a_value_that_the_server_changes_on_its_way_is_an_error(target: Target) -> None:
    """The sampled rows fit; one in the middle does not, and LOAD DATA LOCAL would cut it."""
    target.fill(1)
    target.query(
        f"CREATE TRIGGER {target.database}.t BEFORE INSERT ON users FOR EACH ROW"
        " SET NEW.username = IF(NEW.id = 777, REPEAT('x', 300), NEW.username)"
    )
    with pytest.raises(ServerError, match="Data too long for column 'username'"):
        target.fill(5000, append=True, method="load-data", threads=1)
    assert target.count() == 1


def test_a_table_without_a_column_of_the_plan_is_refused(target: Target) -> None:
    target.fill(1)
    target.query("ALTER TABLE users DROP COLUMN user_type")
    with pytest.raises(UsageError, match="no column user_type"):
        target.fill(10, truncate=True)


def test_rows_that_no_disk_could_hold_are_refused_before_one_is_loaded(target: Target) -> None:
    with pytest.raises(UsageError, match=r"of rows are to come, and .* are free in"):
        target.fill(10**14)
    assert target.count() == 0


def test_a_read_only_server_is_refused_before_anything_is_made(target: Target) -> None:
    target.server.query("SET GLOBAL read_only = 1")
    try:
        with pytest.raises(ServerError, match="read_only=ON"):
            target.fill(10)
    finally:
        target.server.query("SET GLOBAL read_only = 0")


# -- a server that is not ours -------------------------------------------------------------------------------


def test_another_server_keeps_its_settings_and_takes_inserts_where_local_infile_is_off(
    target: Target,
) -> None:
    server, database = target.server, target.database
    server.query(f"CREATE DATABASE {database}")
    server.query("CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED BY 'secret'")
    server.query(f"GRANT ALL ON {database}.* TO 'app'@'%'")
    server.query("SET GLOBAL local_infile = 0")
    before = server.query("SHOW GLOBAL VARIABLES")
    try:
        dsn = f"mysql://app:secret@127.0.0.1:{server.endpoint.port}/{database}"
        done = target.fill(1000, dsn=dsn, database=None)
        assert server.query("SHOW GLOBAL VARIABLES") == before
    finally:
        server.query("SET GLOBAL local_infile = 1")
    assert (done.method.kind, done.sandbox, done.verified) == ("insert", "", True)
    assert "local-infile" in [caveat.slug for caveat in done.warnings]
    assert target.is_whole(1000)


def test_a_small_packet_makes_smaller_batches(target: Target) -> None:
    target.server.query("SET GLOBAL max_allowed_packet = 4096")
    try:
        done = target.fill(500, method="insert", threads=1)
    finally:
        target.server.query("SET GLOBAL max_allowed_packet = 16777216")
    assert done.method.packet_bytes < 4096 and target.is_whole(500)


LONG_ROWS = """
[table.long]
rows = 200
primary_key = "id"
[table.long.column]
id = { type = "INT NOT NULL", generator = "sequence" }
words = { type = "MEDIUMTEXT NOT NULL", generator = "text", length = 20000 }
"""


@pytest.mark.parametrize("method", ["load-data", "insert"])
def test_rows_nearly_as_long_as_a_packet_are_loaded_and_longer_ones_refused(
    target: Target, tmp_path: Path, method: str
) -> None:
    plan = tmp_path / "long.toml"
    plan.write_text(LONG_ROWS)
    where: dict[str, Any] = {
        "server": f"sandbox:{target.server.name}",
        "database": target.database,
        "create": True,
    }
    target.server.query("SET GLOBAL max_allowed_packet = 32768")
    try:
        done = fill(plan, method=method, threads=1, **where)
        plan.write_text(LONG_ROWS.replace("20000", "40000"))
        with pytest.raises(
            UsageError, match=r"a row of long takes 39.* KiB, and max_allowed_packet is 32 KiB"
        ):
            fill(plan, method=method, truncate=True, **where)
    finally:
        target.server.query("SET GLOBAL max_allowed_packet = 16777216")
    assert (done.tables[0].total, done.tables[0].sampled) == (200, 200)


def test_a_function_that_fails_is_the_users_and_named(target: Target, tmp_path: Path) -> None:
    plan = tmp_path / "mine.toml"
    text = 'generator = "python", function = "failing_rows:words"'
    plan.write_text(LONG_ROWS.replace('generator = "text", length = 20000', text))
    (tmp_path / "failing_rows.py").write_text("def words(rows):\n    raise ValueError('no words')\n")
    with pytest.raises(UsageError, match="failing_rows:words: ValueError: no words"):
        fill(plan, server=f"sandbox:{target.server.name}", database=target.database, create=True)


# -- loads that are cut short --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["load-data", "insert"])
def test_a_server_killed_at_30_percent_and_brought_back_ends_with_exactly_the_rows(
    target: Target, small_chunks: None, method: str
) -> None:
    with second_half_held(target), pytest.raises(ServerDied) as died:
        target.fill(ROWS, method=method, threads=2, show=at(0.3, target.server.kill))
    assert "--continue" in (died.value.hint or "")
    assert target.count() < ROWS
    done = target.fill(ROWS, continue_=True, method=method)
    assert done.rows + done.resumed_rows == ROWS
    assert target.is_whole(ROWS)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_load_whose_client_is_ended_half_way_is_resumed_to_exactly_the_rows(
    target: Target, small_chunks: None, number: signal.Signals
) -> None:
    program = f"""
import os
from flushlab.bulk import fill as filling
from flushlab.bulk import native
from flushlab.bulk.fill import fill
filling.CHUNK_BYTES, native.SAMPLE_S = 64 << 10, 0.005
def show(far):
    if far.rows >= 0.5 * far.total:
        os.kill(os.getpid(), {int(number)})
fill("users", rows={ROWS}, server="sandbox:{target.server.name}", database="{target.database}",
     create=True, threads=2, method="load-data", show=show)
"""
    before = target.server.read_back([*RELAXED, "local_infile"])
    command = [sys.executable, "-c", program]
    with second_half_held(target):
        done = subprocess.run(command, env=os.environ, capture_output=True, check=False)
    assert done.returncode in (-number, 1), done.stderr
    with pytest.raises(UsageError, match="did not finish") as refused:
        target.fill(ROWS, threads=2)
    assert "--continue" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="another plan, seed or number of rows"):
        target.fill(ROWS + 1, continue_=True)
    resumed = target.fill(ROWS, continue_=True)
    assert resumed.resumed_rows > 0
    assert target.is_whole(ROWS)
    assert target.server.read_back([*RELAXED, "local_infile"]) == before
    with pytest.raises(UsageError, match="nothing to resume"):
        target.fill(ROWS, continue_=True)


def test_a_new_sandbox_has_its_defaults_once_a_load_that_was_killed_has_been_resumed(
    small_chunks: None,
) -> None:
    program = f"""
import os
from flushlab.bulk import fill as filling
from flushlab.bulk import native
from flushlab.bulk.fill import fill
filling.CHUNK_BYTES, native.SAMPLE_S = 64 << 10, 0.005
def show(far):
    if far.rows >= 0.3 * far.total:
        os.kill(os.getpid(), 9)
fill("users", rows={MANY}, threads=2, progress=lambda line: print(line, flush=True), show=show)
"""
    command = [sys.executable, "-c", program]
    killed = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (name,) = re.findall("rows go to the new sandbox (.+)", killed.stdout)
    changed = ("innodb_doublewrite", "innodb_flush_log_at_trx_commit")
    server = Sandbox.attach(name)
    try:
        assert set(server.read_back(changed).values()) == {"OFF", 0}
        assert fill("users", rows=MANY, server=f"sandbox:{name}", continue_=True).resumed_rows > 0
        server = Sandbox.attach(name)
        assert (server.settings, server.arguments) == ({}, ())
        assert set(server.read_back(changed).values()) == {"ON", 1}
        assert Target(server, "app").is_whole(MANY)
    finally:
        server.remove()


def test_a_lost_connection_is_an_error_that_resumes(target: Target, small_chunks: None) -> None:
    def cut() -> None:
        for (number,) in target.server.query(
            "SELECT id FROM information_schema.processlist WHERE db = DATABASE() OR db LIKE 'fill%'"
        ):
            target.server.query(f"KILL {number}")

    with second_half_held(target), pytest.raises(ServerError):
        target.fill(ROWS, method="load-data", threads=2, show=at(0.3, cut))
    assert target.fill(ROWS, continue_=True).verified
    assert target.is_whole(ROWS)


def test_indexes_that_waited_are_given_back_by_the_load_that_resumes(
    target: Target, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.fill(1)
    target.query("ALTER TABLE users ADD KEY at (created_at), ADD KEY kind (user_type)")
    target.query("TRUNCATE TABLE users")
    ((_, shown),) = target.query("SHOW CREATE TABLE users")
    late = LoadMethod(kind="load-data", connections=2, batch_rows=1, packet_bytes=65536, indexes="after")
    with second_half_held(target), pytest.raises(ServerDied):
        monkeypatch.setattr(choice, "first_method", lambda *_: late)
        target.fill(ROWS, show=at(0.3, target.server.kill))
    assert "KEY `kind`" not in target.query("SHOW CREATE TABLE users")[0][1]
    assert target.fill(ROWS, continue_=True).verified
    ((_, again),) = target.query("SHOW CREATE TABLE users")
    assert without_count(again) == without_count(shown)


def test_a_duplicate_that_a_unique_index_finds_afterwards_is_an_error(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.fill(1)
    target.query("TRUNCATE TABLE users")
    target.query(
        f"CREATE TRIGGER {target.database}.t BEFORE INSERT ON users FOR EACH ROW SET NEW.email = 'same'"
    )
    late = LoadMethod(kind="load-data", connections=1, batch_rows=1, packet_bytes=65536, indexes="after")
    monkeypatch.setattr(choice, "first_method", lambda *_: late)
    with pytest.raises(ServerError, match="rows of users break its unique index: Duplicate entry 'same'"):
        target.fill(300)
    assert target.count() == 300


def without_count(definition: str) -> str:
    return re.sub(r" AUTO_INCREMENT=\d+", "", definition)


@pytest.fixture
def small_disk(furnished_home: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = furnished_home / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m,mode=755", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def resize(disk: Path, mib: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={mib}m", str(disk)], check=True)


def test_a_full_disk_is_an_error_and_with_more_room_the_load_goes_on(
    small_disk: Path, small_chunks: None, build: Callable[[str], Build]
) -> None:
    rows = 60_000
    settings = {**RELAXED, "innodb_log_file_size": 8 << 20, "innodb_buffer_pool_size": 64 << 20}
    root = DataRoot.open(small_disk)
    server = Sandbox.start(SandboxSpec(build("mariadb@10.11"), settings=settings, data_root=root, kept=True))
    try:
        target = Target(server, "app")
        used_mib = shutil.disk_usage(small_disk).used >> 20
        resize(small_disk, used_mib + 6)  # the rows take 13
        with pytest.raises(FlushlabError) as full:
            target.fill(rows, method="load-data", threads=2)
        assert "full" in full.value.message or "space" in full.value.message
        resize(small_disk, 600)
        if not server.alive():
            server.start_again()
        assert 0 < target.count() < rows
        assert target.fill(rows, continue_=True).verified
        assert target.is_whole(rows)
    finally:
        server.remove()


# -- method comparison ---------------------------------------------------------------------------------------


def test_methods_are_compared_from_one_row_a_statement_before_the_load(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "COMPARED_S", PATIENCE_S)  # for all rows, however slow the machine is
    monkeypatch.setattr(choice, "_LARGE_POOL", 160 << 20)
    before = target.server.read_back(["innodb_buffer_pool_size", *RELAXED])
    inserts = [statements(target.server)]

    def climbed(line: str) -> None:
        if " rows/s (" in line:
            inserts.append(statements(target.server))

    done = target.fill(1000, compare_methods=True, method="load-data", threads=1, progress=climbed)
    names = [step.name for step in done.steps]
    assert names[:4] == ["single connection", "pool of 18", "batches of 50", "streamed LOAD DATA"]
    assert names[-1] == "flush policy"
    assert all(step.rows == 1000 and step.bound_by and step.why for step in done.steps)
    sent = [after - before for before, after in itertools.pairwise(inserts)]
    assert 1000 <= sent[0] <= 1010, "one row a statement, and the plan's rows are tried first"
    assert sent[1] == 1000 and 20 <= sent[2] <= 20 + choice.POOL, "batches of 50"
    assert set(sent[3:]) == {0}
    assert target.server.read_back(["innodb_buffer_pool_size", *RELAXED]) == before
    assert target.is_whole(1000)


def statements(server: Sandbox) -> int:
    """INSERT statements that the server has run."""
    return int(server.query("SHOW GLOBAL STATUS LIKE 'Com_insert'")[0][1])
