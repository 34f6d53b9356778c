"""`sql:FILE` against real servers: every statement, in its order, timed by kind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flushlab.errors import MeasurementError
from flushlab.server import Sandbox
from flushlab.workload.parse import build_workload
from flushlab.workload.protocol import Timing, Workload
from flushlab.workload.sql import DATABASE
from tests.conftest import flavors, require_build
from tests.integration.test_bench import flushlab, measured

SERVERS = flavors("mariadb@10.11", "mysql@8.0", "mysql@5.7", first=2)
SCRIPT = r"""
-- A migration; this is no statement.
CREATE TABLE `odd;name` (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(100), again VARCHAR(100));
INSERT INTO `odd;name` (note, again) VALUES ('a;b', "it's"), ('back\'slash;', 'double''d');
CREATE INDEX note ON `odd;name` (note); # why; not
ALTER TABLE `odd;name` ADD COLUMN n INT NOT NULL DEFAULT 0;
/*!50003 SET @conditional = 1 */;
DELIMITER $$
CREATE TRIGGER counted BEFORE INSERT ON `odd;name` FOR EACH ROW BEGIN
  SET NEW.n = 7;
END$$
CREATE PROCEDURE two() BEGIN
  SELECT 1;
  SELECT note FROM `odd;name`;
END$$
DELIMITER ;
INSERT INTO `odd;name` (note) VALUES ('Ω');
CALL two();
CREATE TABLE done AS SELECT @conditional AS c, COUNT(*) AS n FROM `odd;name`
"""

Sandboxes = Callable[..., Sandbox]


def script(folder: Path, text: str) -> Workload:
    (folder / "a.sql").write_text(text)
    return build_workload("sql:a.sql", {}, folder=folder)


@pytest.mark.parametrize("name", SERVERS)
def test_a_script_runs_whole_each_time_on_an_empty_database(
    sandbox: Sandboxes, name: str, tmp_path: Path
) -> None:
    server = sandbox(name)
    workload = script(tmp_path, SCRIPT)
    workload.prepare(server)
    for _ in range(2):
        measured = workload.run(server, Timing(), contextlib.nullcontext())
        assert server.query(f"SELECT c, n FROM {DATABASE}.done") == [(1, 3)]
        seven = server.query(f"SELECT note, n FROM {DATABASE}.`odd;name` WHERE n = 7")
        assert seven == [("Ω", 7)]
        load = measured.load
        assert load is not None
        assert {kind.kind: kind.count for kind in load.kinds} == {
            "CREATE TABLE": 2,
            "INSERT": 2,
            "CREATE INDEX": 1,
            "ALTER TABLE": 1,
            "SET": 1,
            "CREATE TRIGGER": 1,
            "CREATE PROCEDURE": 1,
            "CALL": 1,
        }
        assert sum(kind.seconds for kind in load.kinds) == pytest.approx(measured.result)
        assert (measured.unit, measured.higher_is_better) == ("s", False)


def test_a_refused_statement_names_file_line_and_statement(sandbox: Sandboxes, tmp_path: Path) -> None:
    server = sandbox()
    workload = script(tmp_path, "CREATE TABLE a (x INT);\n\nINSERT INTO nowhere\nVALUES (1);")
    workload.prepare(server)
    with pytest.raises(MeasurementError) as raised:
        workload.run(server, Timing(), contextlib.nullcontext())
    assert raised.value.message.startswith("a.sql, line 3: INSERT INTO nowhere VALUES (1): Table '")
    assert raised.value.message.endswith("doesn't exist (error 1146, SQLSTATE 42S02)")


def test_a_script_that_takes_too_long_is_ended(sandbox: Sandboxes, tmp_path: Path) -> None:
    server = sandbox()
    workload = script(tmp_path, "\nSELECT SLEEP(600)")
    workload.prepare(server)
    with pytest.raises(MeasurementError, match=r"a.sql, line 2: SELECT SLEEP\(600\): the script did not end"):
        workload.run(server, Timing(max_seconds=1.0), contextlib.nullcontext())


def test_bench_runs_a_script_and_says_where_the_time_went(tmp_path: Path) -> None:
    require_build("mariadb@10.11")
    file = tmp_path / "a.sql"
    file.write_text(SCRIPT)
    result = measured(
        flushlab("bench", "--server", "mariadb@10.11", "--workload", f"sql:{file}", "--json", "-")
    )
    assert result["unit"] == "s"
    assert result["load"]["kinds"][0].keys() == {"kind", "count", "seconds", "slowest_s", "slowest_line"}


def test_bench_runs_an_upsert_with_its_options() -> None:
    require_build("mariadb@10.11")
    shape = ["--tables", "1", "--table-size", "1000", "--threads", "1", "--duration", "0.9"]
    done = flushlab(
        *("bench", "--server", "mariadb@10.11", "--workload", "upsert", *shape, "--rows", "20"),
        *("--key", "unique", "--hit-ratio", "1", "--commit", "100 rows", "--json", "-"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["unit"] == "rows/s"
    assert result["load"]["rows"]["updated"] == result["load"]["rows"]["committed"] > 0
    assert result["load"]["rows"]["commits"] == pytest.approx(
        result["load"]["rows"]["committed"] / 100, rel=0.2, abs=2
    )
    done = flushlab("bench", "--workload", "oltp_update_non_index", "--commit", "1 s")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the workload oltp_update_non_index takes no --commit" in done.stderr
