"""`flushlab test` with real servers: what a suite finds, what it leaves, what goes wrong."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pymysql
import pytest

import flushlab
from flushlab.datadir import DataRoot, Snapshot, Snapshots
from flushlab.machine import home
from flushlab.suite import servers
from flushlab.suite.database import Database
from flushlab.suite.profile import throwaway
from flushlab.suite.servers import WORTH_IT, Clones, Pristine, SuiteServer
from flushlab.suite.templates import FACTS
from tests.command import flushlab as command
from tests.conftest import StartSandbox, flavors, require_build
from tests.integration.suite_project import SHM, Project, python, wait_until_memory_is_free
from tests.waiting import wait_for_end, wait_until

ALL = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", "mysql@9.7", first=2)


def templates(project: Project) -> list[Path]:
    """Of this project: others are made at the same time."""
    own = hashlib.sha256((project.folder / "db/V1.sql").read_bytes()).hexdigest()
    found = []
    for file in (home() / "templates").glob(f"[0-9a-f]*/data/{FACTS}"):
        with contextlib.suppress(FileNotFoundError):
            if own in file.read_text():
                found.append(file.parents[1])
    return found


@pytest.mark.parametrize("server", ALL)
def test_a_suite_finds_its_server_by_socket_and_tcp_in_memory_and_nothing_stays(
    project: Project, server: str
) -> None:
    require_build(server)
    code = """
        local = at(unix_socket=own("SOCKET")).cursor()
        print(ask(local, "SELECT database(), @@datadir, @@log_bin"))
        c.execute("CREATE TABLE x (id INT PRIMARY KEY)")
        print(os.environ["SPRING"]); raise SystemExit(9)
    """
    result, out, err = project.test(
        "--server",
        server,
        "--env",
        "SPRING=jdbc:{host}:{port}/{database}",
        *python(code),
        code=9,
        prepare=False,
    )
    first, second = out.splitlines()
    database, datadir, log_bin = eval(first)[0]
    assert (database, log_bin) == ("app", 1)
    assert second == f"jdbc:127.0.0.1:{second.split(':')[2]}"
    assert result["in_memory"] or "of memory is free" in err, "other tests may need it now"
    assert datadir.startswith("/dev/shm/") is result["in_memory"]
    assert not Path(datadir).exists()
    assert (result["exit_code"], result["template"]) == (9, "none")
    assert result["server"]["name"].startswith(server)
    assert "nothing prepared" in err
    wait_until_memory_is_free()


def test_the_database_has_the_characters_that_were_asked_for(project: Project) -> None:
    code = """
        print(*ask(c, "SELECT @@character_set_database, @@collation_database, CURRENT_USER()")[0])
    """
    asked = ["--charset", "latin1", "--collation", "latin1_bin"]
    _, out, _ = project.test(*asked, *python(code), prepare=False)
    assert out == "latin1 latin1_bin flushlab@localhost\n"
    _, _, err = project.test("--charset", "utf99", *python(code), prepare=False, code=2)
    assert "cannot make the database app: Unknown character set: 'utf99'" in err


@pytest.mark.usefixtures("private_home_with_builds", "strict_umask")
def test_servers_start_in_a_new_home_whatever_the_umask(project: Project) -> None:
    """Root's servers run as another user, who must reach all that flushlab makes."""
    result, out, _ = project.test("--", "sh", "-c", "umask", prepare=False)
    assert (result["exit_code"], out) == (0, "0077\n")


def test_settings_are_told_as_the_server_has_them_and_a_rounded_one_is_said(project: Project) -> None:
    code = python("print(ask(c, 'SELECT @@innodb_buffer_pool_size')[0][0])")
    asked = 200_000_000
    result, out, err = project.test("--set", f"innodb_buffer_pool_size={asked}", *code, prepare=False)
    has = int(out)
    assert has != asked
    assert result["settings"]["innodb_buffer_pool_size"] == has
    assert f"innodb_buffer_pool_size was set to {asked}, and the server changed it to {has}" in " ".join(
        err.split()
    )


def test_miss_hit_prefix_and_full_run_when_a_file_changed(project: Project) -> None:
    show = python(
        """print([ask(c, f"SELECT COUNT(*) FROM {t}")[0][0] for t in ("t1", "schema_migrations")])"""
    )
    result, out, err = project.test(*show)
    assert (result["template"], out) == ("miss", "[2, 2]\n")
    assert err.count("applying") == 2
    assert err.index("applying V2.sql") < err.index("runs the prepare command again: if nothing changes")
    result, out, err = project.test(*show)
    assert (result["template"], out, result["seconds"]["prepare"]) == ("hit", "[2, 2]\n", 0)
    assert "applying" not in err
    project.migration(3, "ALTER TABLE t2 ADD COLUMN more INT")
    result, out, err = project.test(*show)
    assert (result["template"], out) == ("prefix", "[3, 3]\n")
    assert [line for line in err.splitlines() if "applying" in line] == ["applying V3.sql"]
    project.migration(1, "CREATE TABLE t1 (id INT AUTO_INCREMENT PRIMARY KEY, v INT, w INT)")
    result, out, err = project.test(*show)
    assert (result["template"], out) == ("miss", "[3, 3]\n")
    assert err.count("applying") == 3
    assert "since the last template, db/V1.sql was changed; the prepare command runs in full\n" in err
    project.migration(4, "not SQL")
    done = command(*project.words("--", "true")[3:], cwd=project.folder, code=None)
    assert done.returncode == 2
    _, first, *second = re.split("applying V4.sql", done.stderr)
    assert "the template of the first 3 inputs cannot be extended: the prepare command failed on it" in first
    assert len(second) == 1, "why there is another run is said before it"


def test_a_script_without_a_history_is_never_built_upon(project: Project) -> None:
    script = project.folder / "all.sh"
    script.write_text('for f in db/*.sql; do cat $f; done | "$CLIENT" -u $FLUSHLAB_USER app\n')
    for number in (1, 2):
        (project.folder / f"db/V{number}.sql").write_text(
            f"-- {project.mark}\nCREATE TABLE IF NOT EXISTS s (v INT); INSERT INTO s VALUES ({number});"
        )
    client = require_build("mariadb@10.11").client
    assert client is not None
    words = [
        "--prepare",
        f"CLIENT={client} sh all.sh",
        "--inputs",
        "db/*.sql",
        *python("print(ask(c, 'SELECT COUNT(*) FROM s'))"),
    ]
    assert project.test(*words, prepare=False)[1] == "((2,),)\n"
    (project.folder / "db/V3.sql").write_text("INSERT INTO s VALUES (3);")
    result, out, err = project.test(*words, prepare=False)
    assert (result["template"], out) == ("miss", "((3,),)\n"), (
        "a prefix would have loaded the first two again"
    )
    assert (
        "the template of the first 2 inputs cannot be extended: no table has the columns of a known migration"
        " tool; the prepare command runs in full\n"
    ) in err


def test_a_template_has_the_seed_rows_of_one_run_though_the_command_was_run_twice(project: Project) -> None:
    with (project.folder / "migrate.py").open("a") as script:
        script.write("print('seeding'); c.execute('INSERT INTO t2 (v) VALUES (1)')\n")
    show = python("print(ask(c, 'SELECT COUNT(*) FROM t2'))")
    for template, runs in (("miss", 2), ("hit", 0)):
        result, out, err = project.test(*show)
        assert (result["template"], out) == (template, "((1,),)\n")
        assert err.count("seeding") == runs
    project.migration(3, "ALTER TABLE t2 ADD COLUMN more INT")
    result, out, _ = project.test(*show)
    assert (result["template"], out) == ("miss", "((1,),)\n"), "it is not to be run again on its own result"


def test_an_edited_script_makes_a_template_of_its_own(project: Project) -> None:
    script = project.folder / "migrate.sh"
    words = ("--prepare", "./migrate.sh", "--inputs", "db/*.sql", "--", "true")
    found = []
    for version in ("one", "one", "two"):
        script.write_text(f"#!/bin/sh\n# {version}\nexec {sys.executable} migrate.py\n")
        script.chmod(0o755)
        found.append(project.test(*words, prepare=False)[0]["template"])
    assert found == ["miss", "hit", "miss"]


def test_a_script_that_can_no_longer_be_executed_fails_as_without_a_template(project: Project) -> None:
    script = project.folder / "migrate.sh"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} migrate.py\n")
    words = ("--prepare", "./migrate.sh", "--inputs", "db/*.sql", "--", "true")
    for mode, code in ((0o755, 0), (0o644, 2)):
        script.chmod(mode)
        _, _, err = project.test(*words, prepare=False, code=code)
    assert "since the last template, migrate.sh was changed" in err
    assert "Permission denied" in err
    assert "error: the prepare command exited with code 126 on mariadb@10.11" in err


def test_a_failing_prepare_shows_its_output_and_keeps_nothing(project: Project) -> None:
    words = ["--prepare", f"echo said-{project.mark}; exit 23", "--inputs", "db/*.sql", "--", "true"]
    for _ in range(2):
        _, out, err = project.test(*words, code=2, prepare=False)
        assert out == ""
        assert f"said-{project.mark}" in err
        assert re.search(
            r"error: the prepare command exited with code 23 on mariadb@10\.11\.\d+"
            r" \(default; --server mysql@8\.0\); no template was kept and the suite did not run",
            err,
        )


def test_a_client_that_fails_in_the_middle_leaves_a_template_only_if_it_is_asked_for(
    project: Project,
) -> None:
    client = require_build("mariadb@10.11").client
    assert client is not None
    (project.folder / "all.sh").write_text(
        f"for f in db/*.sql; do {client} -u $FLUSHLAB_USER -S $FLUSHLAB_SOCKET app < $f; done; echo done\n"
    )
    project.migration(3, "SELECT IS_UUID('x')")
    show = python("print(ask(c, 'SHOW TABLES'))")
    named = ["--server", "mariadb@10.11", "--prepare", "sh all.sh", "--inputs", "db/*.sql", *show]
    error = "ERROR 1305 (42000) at line 2: FUNCTION app.IS_UUID does not exist"
    for _ in range(2):
        _, out, err = project.test(*named, code=2, prepare=False)
        assert (out, err.count(error)) == ("", 2), "of the client, and of the error"
        assert "try --server mysql@8.0; end the command at its first error" in err
        assert not templates(project)
    for template in ("miss", "hit"):
        result, out, err = project.test("--keep-failed", *named, prepare=False)
        assert (result["template"], out) == (template, "(('t1',), ('t2',))\n")
        assert f"the template was kept although the prepare command reported an error: {error}" in err
    _, _, err = project.test(*named, code=2, prepare=False)
    assert error in err


def test_a_damaged_template_is_made_anew(project: Project) -> None:
    show = python("print(ask(c, 'SELECT COUNT(*) FROM t1'))")
    project.test(*show)
    (made,) = templates(project)
    file = made / "data/app/t1.ibd"
    content = bytearray(file.read_bytes())
    content[50_000] ^= 0xFF
    file.chmod(0o600)
    times = file.stat().st_mtime_ns
    file.write_bytes(content)
    os.utime(file, ns=(times, times))
    result, out, err = project.test(*show, under=("env",))  # a process verifies a template once
    assert (result["template"], out) == ("miss", "((2,),)\n")
    assert "damaged" in err
    assert project.test(*show)[0]["template"] == "hit"


def test_cache_of_a_ci_service(project: Project) -> None:
    cache = project.folder / "cache"
    project.test("--cache", str(cache), "--", "true")
    assert sum(file.stat().st_size for file in cache.iterdir()) < 20 << 20
    (made,) = templates(project)
    subprocess.run(["/bin/chmod", "-R", "u+w", str(made)], check=True)
    subprocess.run(["/bin/rm", "-r", str(made)], check=True)
    result, out, _ = project.test("--cache", str(cache), *python("print(ask(c, 'SELECT COUNT(*) FROM t1'))"))
    assert (result["template"], out) == ("hit", "((2,),)\n")


def test_workers_are_isolated_and_each_can_be_reset(project: Project) -> None:
    code = """
        import json, subprocess, sys, urllib.request
        one, two = tcp("_1"), tcp("_2")
        one.execute("INSERT INTO t1 (v) VALUES (1), (2)"); one.execute("DROP TABLE t2")
        one.execute("CREATE USER other@localhost"); one.execute("SET GLOBAL max_connections = 17")
        two.execute("INSERT INTO t1 (v) VALUES (1)")
        with urllib.request.urlopen(os.environ["FLUSHLAB_RESET_URL_1"], b"") as answer:
            assert json.load(answer)["resets"] == 1
        one = tcp("_1")
        print(ask(one, "SELECT COUNT(*) FROM t1"), ask(one, "SELECT COUNT(*) FROM t2"))
        one.execute("INSERT INTO t1 (v) VALUES (1)")
        print(ask(one, "SELECT MAX(id) FROM t1"), ask(one, "SELECT @@max_connections"),
              ask(one, "SELECT COUNT(*) FROM mysql.user WHERE user = 'other'"),
              ask(two, "SELECT COUNT(*) FROM t1"))
        words = ["-m", "flushlab", "server", "reset", own("NAME_2")]
        subprocess.run([sys.executable, *words], check=True)
        print(ask(tcp("_2"), "SELECT COUNT(*) FROM t1"))
    """
    result, out, _ = project.test("--workers", "2", *python(code))
    assert out.splitlines() == ["((2,),) ((0,),)", "((3,),) ((151,),) ((0,),) ((3,),)", "((2,),)"]
    assert (result["workers"], result["resets"]) == (2, 2)


def test_a_suite_that_cleans_and_migrates_again_is_told_so(project: Project) -> None:
    for number in range(3, 10):
        project.migration(number, f"CREATE TABLE t{number} (id INT)")
    code = """
        for n in range(1, 10):
            c.execute(f"DROP TABLE t{n}"); c.execute(f"CREATE TABLE t{n} (id INT)")
    """
    result, _, err = project.test(*python(code))
    assert result["recreated"]["objects"] == 9
    assert "the suite dropped and recreated 9 objects" in err
    assert "keep the template by skipping clean" in err


def test_death_of_the_server_is_told_behind_the_suites_own_output(project: Project) -> None:
    code = """
        import signal, time
        pid = int(open(ask(c, "SELECT @@pid_file")[0][0]).read()); os.kill(pid, signal.SIGKILL)
        print("suite", flush=True); raise SystemExit(4)
    """
    result, out, err = project.test(*python(code), code=4, prepare=False)
    assert out == "suite\n"
    assert "died during the suite" in err
    assert "died during the suite" in result["died"]


def test_a_server_that_hangs_is_told_and_does_not_hold_up_the_end(project: Project) -> None:
    code = """
        import signal, time
        pid = int(open(ask(c, "SELECT @@pid_file")[0][0]).read()); os.kill(pid, signal.SIGSTOP)
        def runs():
            threads = [open(f"/proc/{pid}/task/{one}/stat").read() for one in os.listdir(f"/proc/{pid}/task")]
            return any(not thread.rpartition(") ")[2].startswith("T") for thread in threads)
        while runs(): time.sleep(0.01)
        print(pid)
    """
    result, out, err = project.test(*python(code), prepare=False)
    assert "hangs" in result["died"] and "hangs" in err
    assert not Path(f"/proc/{int(out)}").exists()


def test_two_runs_at_once_share_one_template(project: Project) -> None:
    words = project.words(*python("print(ask(c, 'SELECT COUNT(*) FROM t1'))"))
    runs = [
        subprocess.Popen(words, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [(run.communicate(timeout=900)[0], run.returncode) for run in runs] == [("((2,),)\n", 0)] * 2


def test_on_disk_when_asked_or_when_memory_is_short(project: Project) -> None:
    result, out, _ = project.test(
        "--no-in-memory", *python("print(ask(c, 'SELECT @@datadir'))"), prepare=False
    )
    assert not result["in_memory"]
    assert "/dev/shm" not in out


@pytest.fixture
def sleeping(project: Project) -> Iterator[subprocess.Popen[str]]:
    """`flushlab test` in the middle of its command."""
    require_build("mariadb@10.11")
    code = """
        import time
        print(ask(c, "SELECT @@datadir")[0][0], ask(c, "SELECT @@pid_file")[0][0], flush=True)
        time.sleep(600)
    """
    run = subprocess.Popen(
        project.words(*python(code), prepare=False),
        cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )  # fmt: skip
    yield run
    with contextlib.suppress(ProcessLookupError):  # its command outlives it if it was killed
        os.killpg(run.pid, signal.SIGKILL)
    run.communicate()


def test_killed_flushlab_leaves_no_server_and_no_memory_in_use(sleeping: subprocess.Popen[str]) -> None:
    assert sleeping.stdout is not None
    datadir, pid_file = sleeping.stdout.readline().split()
    pid = Path(pid_file).read_text().strip()
    sleeping.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the server is gone")
    wait_until(lambda: not Path(datadir).parent.exists(), "its data directory is gone")


def test_interrupt_ends_the_command_and_then_everything(sleeping: subprocess.Popen[str]) -> None:
    assert sleeping.stdout is not None
    datadir, _ = sleeping.stdout.readline().split()
    os.killpg(sleeping.pid, signal.SIGINT)  # as a terminal does
    _, err = wait_for_end(sleeping, "flushlab ends after Ctrl-C")
    assert sleeping.returncode == 1 or sleeping.returncode == 130
    assert "KeyboardInterrupt" in err, "the command was interrupted itself"
    assert not Path(datadir).exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-command"], 127, "no-such-command: command not found"),
        (["--prepare", "true", "--inputs", "nothing/*.sql", "--", "true"], 2, "matches no file"),
        (["--prepare", "true", "--", "true"], 2, "--inputs"),
        (["--inputs", "db/*.sql", "--", "true"], 2, "--prepare"),
        (["--env", "X={no}", "--", "true"], 2, "unknown field {no}"),
        (["--env", "X", "--", "true"], 2, "hint: for example --env"),
        (["--set", "port=1", "--", "true"], 2, "port cannot be set in a sandbox"),
        (["--cache", "/proc/no", "--", "true"], 5, "hint: choose another with --cache"),
        (["--json", "-", "--", "true"], 2, "name a file"),
        (["--database", "a b", "--", "true"], 2, "database"),
        (["--database", "mysql", "--", "true"], 2, "the database mysql is the server's own"),
        (["--database", "SYS", "--", "true"], 2, "the database SYS is the server's own"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_starts(
    project: Project, words: list[str], code: int, said: str
) -> None:
    done = command("test", *words, cwd=project.folder, code=code)
    assert said in done.stderr
    assert "creating a template" not in done.stderr


def test_a_setting_that_the_server_does_not_know_is_a_mistake_of_the_user(project: Project) -> None:
    _, _, err = project.test("--set", "sync_binlogs=1", "--", "true", code=2, prepare=False)
    assert "sync_binlogs" in err and "did you mean sync_binlog?" in err


def test_death_by_a_signal_is_passed_on_as_a_shell_does(project: Project) -> None:
    result, _, _ = project.test("--", "sh", "-c", "kill -TERM $$", code=128 + 15, prepare=False)
    assert result["exit_code"] == 143


def test_url_of_a_reset_that_nobody_knows(project: Project) -> None:
    code = """
        import urllib.error, urllib.request
        url = os.environ["FLUSHLAB_RESET_URL"]
        try:
            urllib.request.urlopen(url.replace("/reset/", "/x/"))
        except urllib.error.HTTPError as error:
            print(error.code)
    """
    assert project.test(*python(code), prepare=False)[1] == "404\n"


def test_a_server_moves_from_memory_to_disk_with_its_data_and_its_port(sandbox: StartSandbox) -> None:
    settings = throwaway(require_build("mariadb@10.11"), "memory")
    server = sandbox("mariadb@10.11", settings=settings, data_root=DataRoot.open(SHM))
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.query("INSERT INTO d.t VALUES (1), (2)")
    in_memory, endpoint = server.datadir, server.endpoint
    first = Pristine(server, None)
    suite = SuiteServer(first, cast(Snapshot, None), Snapshots(), Clones(lambda _: first, 0))
    suite.move_to_disk({})
    assert server.query("SELECT COUNT(*) FROM d.t") == [(2,)]
    assert server.endpoint == endpoint
    assert not server.storage.in_memory
    assert server.launch.arguments == ("--debug-no-sync",)
    assert not in_memory.parent.exists(), "its memory is free"
    server.close()
    assert not server.datadir.exists()


@pytest.mark.parametrize(
    ("server", "clones"),
    flavors(
        ("mariadb@10.11", "0"),
        ("mariadb@10.11", "1"),
        ("mysql@8.0", "0"),
        ("mysql@5.7", "1"),
        ("mysql@9.7", "1"),
        first=3,
    ),
)
def test_reset_by_a_restart_and_by_a_clone(project: Project, server: str, clones: str) -> None:
    require_build(server)
    code = """
        import urllib.request
        for _ in range(2):
            c.execute("CREATE TABLE t (id INT)")
            c.execute("CREATE USER x@localhost")
            before = at(unix_socket=own("SOCKET")).cursor()
            urllib.request.urlopen(own("RESET_URL"), b"").read()
            for old in (c, before):
                try:
                    ask(old, "SELECT 1"); print("an old connection is alive")
                except pymysql.err.OperationalError:
                    pass
            c = tcp()
            local = at(unix_socket=own("SOCKET")).cursor()
            assert ask(local, "SELECT @@pid_file") == ask(c, "SELECT @@pid_file"), "one server, both ways"
        print(ask(c, "SHOW TABLES"), ask(c, "SELECT COUNT(*) FROM mysql.user WHERE user = 'x'"))
    """
    words = ["--server", server, "--clones", clones, *python(code)]
    result, out, _ = project.test(*words, prepare=False)
    assert out == "() ((0,),)\n"
    assert result["resets"] == 2
    wait_until_memory_is_free()


def test_clones_come_by_themselves_once_a_suite_has_reset_its_database_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_build("mariadb@10.11")
    monkeypatch.setattr(servers, "has_room", lambda *_: True)
    own, said = [], list[str]()
    with flushlab.database(server="mariadb@10.11", progress=said.append) as database:
        for _ in range(WORTH_IT + 2):
            with connection(database) as cursor:
                cursor.execute("CREATE TABLE t (id INT)")
            database.reset()
            with connection(database) as cursor:
                cursor.execute("SHOW TABLES")
                assert cursor.fetchall() == ()
                cursor.execute("SELECT @@port")
                own.append(cursor.fetchall() == ((database.port,),))
    assert own == [True] * WORTH_IT + [False] * 2
    assert len([line for line in said if line.startswith("1 standby server for resets")]) == 1
    wait_until_memory_is_free()


@contextlib.contextmanager
def connection(database: Database) -> Iterator[Any]:
    connected = pymysql.connect(
        host=database.host, port=database.port, user=database.user, password=database.password,
        database=database.database, ssl_disabled=True,
    )  # fmt: skip
    with connected, connected.cursor() as cursor:
        yield cursor


def test_comparison_tells_where_stocks_time_went(project: Project) -> None:
    require_build("mysql@5.7")
    code = "c.execute('INSERT INTO t1 VALUES ()')"
    rounded = ("--set", "innodb_buffer_pool_size=200000000")
    result, _, err = project.test("--server", "mysql@5.7", *rounded, "--compare", *python(code))
    assert result["template"] == "hit"
    assert result["ratio"]["estimate"] > 0
    kinds = {(row["part"], row["kind"]): row for row in result["statements_by_kind"]}
    assert kinds["prepare", "create_table"]["count"] == 3
    assert kinds["prepare", "create_table"]["seconds"] > 0
    assert kinds["command", "insert"]["count"] == 1
    assert any(row["file"].startswith("ib_logfile") for row in result["io_by_file"])
    ((block,),) = [result["blocks"]]
    assert set(block["stock"]["seconds"]) == {"ready", "prepare", "command", "teardown"}
    assert block["stock"]["seconds"]["prepare"] > 0 == block["fast"]["seconds"]["prepare"]
    stock, fast = (block[side]["settings"] for side in ("stock", "fast"))
    assert stock.keys() == fast.keys()
    assert (stock["innodb_doublewrite"], fast["innodb_doublewrite"]) == ("ON", "OFF")
    assert stock["performance_schema"] == fast["performance_schema"] == "ON"
    assert stock["innodb_buffer_pool_size"] == fast["innodb_buffer_pool_size"] > 200_000_000, "as rounded"
    for said in ("setup: migrations", "Stock, migrations", "create_table", "database's share"):
        assert said in err
