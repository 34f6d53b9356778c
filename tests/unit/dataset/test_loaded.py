"""What is done to data that were loaded."""

from __future__ import annotations

from flushlab.dataset.loaded import USER_TABLES, analyze
from tests.fakes.server import FakeServer


def test_tables_with_any_name_are_analyzed() -> None:
    analyzed = ["ANALYZE TABLE `my``app`.`t 1`", "ANALYZE TABLE `app`.`#mysql50#x`"]
    found = [("my`app", "t 1"), ("app", "#mysql50#x")]
    server = FakeServer(answers={USER_TABLES: found, analyzed[0]: [], analyzed[1]: []})
    analyze(server)
    assert server.statements[1:] == analyzed
