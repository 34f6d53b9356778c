"""Changes to try, in the form that the server takes."""

from __future__ import annotations

import msgspec
import pytest

from flushlab.diagnosis.diagnose import Diagnosis, diagnose
from flushlab.diagnosis.finding import changes
from flushlab.report import doctor, html, markdown
from flushlab.report.doctor import to_take
from tests.golden.test_reports import text_of as terminal_of
from tests.unit.diagnosis.watched import COMMITTING, MARIADB, evidence, time_of, writer
from tests.unit.report.test_page import text_of
from tests.unit.settings.servers import server
from tests.unit.telemetry.live.told import MYSQL57


def diagnosed(**variables: str) -> Diagnosis:
    """Commits wait for both logs, statements for the log buffer."""
    return diagnose(
        evidence(
            {"innodb_log_waits": 900, "handler_commit": 1000},
            write_time=time_of([writer(1, COMMITTING), writer(2)]),
            variables=variables,
        )
    )


def test_a_change_that_may_take_a_restart_is_no_statement() -> None:
    seen = evidence(identity=MARIADB, settings={"innodb_buffer_pool_size": 128 << 20})
    (change,) = changes(seen, {"innodb_buffer_pool_size": 1 << 30})
    of_11_8 = msgspec.structs.replace(
        seen, after=msgspec.structs.replace(seen.after, identity=server("mariadb", 11, 8, 9))
    )
    for told, statement in ((seen, True), (of_11_8, False)):
        assert ("SET GLOBAL" in to_take(change, diagnose(told))) is statement


SERVICES = [
    ({"rds_human_readable": "1"}, "parameter group"),
    ({"aurora_version": "3.05.2"}, "parameter group"),
    ({"azure_server_name": "x"}, "server parameters"),
    ({"cloudsql_iam_authentication": "OFF"}, "database flags"),
]


@pytest.mark.parametrize(("variables", "place"), SERVICES)
def test_a_service_gets_values_and_no_statement_that_it_refuses(
    variables: dict[str, str], place: str
) -> None:
    found = diagnosed(**variables)
    texts = (
        terminal_of(doctor.document(found), full=True),
        markdown.render(doctor.document(found)),
        text_of(html.render(doctor.document(found))),
    )
    for text in texts:
        assert "SET GLOBAL innodb" not in text and "SET GLOBAL sync" not in text and "[mysqld]" not in text
        assert place in text
        assert "innodb_flush_log_at_trx_commit = 2" in text and "innodb_log_buffer_size = 67108864" in text


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({}, "innodb_log_buffer_size = 64M"),
        ({"rds_x": "1"}, "innodb_log_buffer_size = 67108864  # takes a restart"),
    ],
)
def test_a_setting_that_takes_a_restart_says_so(variables: dict[str, str], line: str) -> None:
    found = diagnose(evidence({"innodb_log_waits": 900}, identity=MYSQL57, variables=variables))
    (change,) = next(one for one in found.findings if one.name == "log_buffer").changes
    text = to_take(change, found)
    assert line in text.splitlines() and "akes a restart" in text
