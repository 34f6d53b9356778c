from __future__ import annotations

from flushlab.report.probe import render
from tests.golden.test_reports import check, text_of
from tests.unit.probes import SHARE, SWITCHING, probe_record


def test_a_probe() -> None:
    check("probe.txt", text_of(render(probe_record(against=(SHARE,), switches=(SWITCHING,)))))
