"""Files for Grafana and Prometheus: they ask for what is told, and spare what is not flushlab's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flushlab.errors import NotWritable, UsageError
from flushlab.watch import monitoring_files
from flushlab.watch.exporter import Exporter
from flushlab.watch.poller import PollResult
from tests.unit.telemetry.live.told import MARIADB, STATUS, VARIABLES, seen
from tests.unit.watch.judged import JUDGED
from tests.unit.watch.test_exporter import RUNNING

MORE = dict.fromkeys(
    (
        *(
            "com_insert",
            "handler_commit",
            "innodb_os_log_written",
            "innodb_data_written",
            "innodb_os_log_fsyncs",
        ),
        *("innodb_data_fsyncs", "threads_connected", "threads_running", "aborted_clients"),
        *(
            "binlog_commits",
            "binlog_group_commits",
            "binlog_cache_use",
            "innodb_buffer_pool_pages_misc",
            "innodb_checkpoint_age",
        ),
    ),
    "1",
)
"""Further names of SHOW GLOBAL STATUS, as MariaDB 10.11 tells them."""
NAME = re.compile(r"\b(?:mysql|flushlab)_\w+")
EXPRESSIONS = [
    *(
        query
        for _, panels in monitoring_files.DASHBOARDS.values()
        for one in panels
        for query in one.queries.values()
    ),
    *(alert.expression for alert in monitoring_files.ALERTS),
]


def test_every_name_that_is_asked_for_is_told() -> None:
    known = PollResult(up=True, seen=seen(MARIADB, status=STATUS | MORE), judged=JUDGED)
    _, text = Exporter().exposition(known, RUNNING, 0.5, "")
    told = set(re.findall(r"^([a-zA-Z_:]\w*)", text.decode(), re.MULTILINE))
    asked = {name for expression in EXPRESSIONS for name in NAME.findall(expression)}
    assert len(asked) > 25
    assert asked - told == set()


def test_a_dashboard_can_be_imported_and_provisioned(tmp_path: Path) -> None:
    written = monitoring_files.write(tmp_path, monitoring_files.grafana(tmp_path))
    boards = [json.loads(path.read_text()) for path in written if path.suffix == ".json"]
    assert {one["uid"] for one in boards} == {"flushlab-campaign", "flushlab-server"}
    for board in boards:
        assert board["id"] is None
        assert "__inputs" not in board
        assert board["templating"]["list"][0]["type"] == "datasource"
        for panel in board["panels"]:
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert all(
                "rate(" not in one["expr"] or "[$__rate_interval]" in one["expr"] for one in panel["targets"]
            )
    assert monitoring_files.write(tmp_path, monitoring_files.grafana(tmp_path)) == written  # over its own


@pytest.mark.parametrize("theirs", ["groups: []\n", f"# {monitoring_files.MADE}\ngroups: []\n"])
def test_a_file_that_is_somebody_elses_or_was_edited_is_kept_and_nothing_else_written(
    theirs: str, tmp_path: Path
) -> None:
    (tmp_path / "flushlab-alerts.yml").write_text(theirs)
    with pytest.raises(UsageError, match=r"flushlab-alerts\.yml exists and is not what would be written"):
        monitoring_files.write(tmp_path, monitoring_files.prometheus("localhost:9194"))
    assert [path.name for path in tmp_path.iterdir()] == ["flushlab-alerts.yml"]
    assert (tmp_path / "flushlab-alerts.yml").read_text() == theirs


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritable, match="cannot be written"):
        monitoring_files.write(tmp_path / "file", monitoring_files.prometheus("localhost:9194"))


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool (Debian: apt-get install prometheus)"
)


@needs_promtool
def test_promtool_finds_nothing_to_say_of_names_that_are_flushlabs() -> None:
    told = seen(MARIADB, status=STATUS | MORE, variables=VARIABLES | {"max_error_count": "64"})
    _, text = Exporter().exposition(PollResult(up=True, seen=told, judged=JUDGED), RUNNING, 0.5, "")
    assert text.count(b"# HELP flushlab_") > 15
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text.decode(), capture_output=True, text=True, check=False
    )
    said = checked.stderr.splitlines()
    assert [line for line in said if not line.startswith("mysql_")] == []
    assert said != []  # of a name that is mysqld_exporter's: promtool does look


@needs_promtool
def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    monitoring_files.write(tmp_path, monitoring_files.prometheus("localhost:9194"))
    checked = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "6 rules found" in checked.stdout
