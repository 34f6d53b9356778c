"""Files for Grafana and Prometheus: they ask for what is told, and spare what is not flushlab's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from flushlab.cli.watch import watch
from flushlab.errors import NotWritable, UsageError
from flushlab.watch import exporter
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
FILES = sorted(exporter.GRAFANA.parent.rglob("*.*"))
BOARDS = [json.loads(path.read_text()) for path in FILES if path.suffix == ".json"]


def test_every_name_that_is_asked_for_is_told() -> None:
    known = PollResult(up=True, seen=seen(MARIADB, status=STATUS | MORE), judged=JUDGED)
    _, text = Exporter().exposition(known, RUNNING, 0.5, "")
    told = set(re.findall(r"^([a-zA-Z_:]\w*)", text.decode(), re.MULTILINE))
    asked = {name for path in FILES for name in NAME.findall(path.read_text())}
    assert len(asked) > 25
    assert asked - told == set()


def test_a_dashboard_can_be_imported_and_provisioned() -> None:
    assert {one["uid"] for one in BOARDS} == {"flushlab-campaign", "flushlab-server"}
    for board in BOARDS:
        assert board["id"] is None
        assert "__inputs" not in board
        assert board["templating"]["list"][0]["type"] == "datasource"
        for panel in board["panels"]:
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert all(
                "rate(" not in one["expr"] or "[$__rate_interval]" in one["expr"] for one in panel["targets"]
            )


def test_the_command_copies_the_files_and_again_over_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        watch({}, print_grafana=tmp_path / "grafana", print_prometheus=tmp_path / "prometheus")
        written = [Path(line) for line in capsys.readouterr().out.splitlines()]
        assert [path.relative_to(tmp_path).as_posix() for path in written] == [
            "grafana/dashboards/flushlab-campaign.json",
            "grafana/dashboards/flushlab-server.json",
            "grafana/dashboards/flushlab.yml",
            "grafana/datasources/flushlab.yml",
            "prometheus/flushlab-alerts.yml",
            "prometheus/prometheus.yml",
        ]
        assert [path.read_bytes() for path in written] == [path.read_bytes() for path in FILES]


def test_the_command_refuses_what_has_no_effect_on_the_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--listen has no effect with --print-grafana"):
        watch({"listen": "0.0.0.0:9194"}, print_prometheus=tmp_path / "new")
    with pytest.raises(UsageError, match="--terminal has no effect with --print-grafana"):
        watch({}, terminal=True, print_grafana=tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_somebody_elses_or_was_edited_is_kept_and_nothing_else_written(
    tmp_path: Path,
) -> None:
    theirs = "groups: []\n"
    (tmp_path / "prometheus.yml").write_text(theirs)
    with pytest.raises(UsageError, match=r"prometheus\.yml exists and is not what would be written"):
        exporter.copy(exporter.PROMETHEUS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["prometheus.yml"]
    assert (tmp_path / "prometheus.yml").read_text() == theirs


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritable, match="cannot be written"):
        exporter.copy(exporter.PROMETHEUS, tmp_path / "file")


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
@pytest.mark.parametrize(
    ("command", "file", "said"),
    [
        (("check", "config"), exporter.PROMETHEUS / "prometheus.yml", "6 rules found"),
        (("test", "rules"), Path(__file__).with_name("alerts_test.yml"), "SUCCESS"),
    ],
)
def test_promtool_finds_nothing_to_say(command: Sequence[str], file: Path, said: str) -> None:
    """The scrape file with the alerts; and the alerts over series that should raise them."""
    checked = subprocess.run(["promtool", *command, str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert said in checked.stdout
