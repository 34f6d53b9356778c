from __future__ import annotations

from flushlab.report.probe import document
from tests.golden.test_reports import check, text_of
from tests.unit.probes import SHARE, SWITCHING, probe_record


def test_a_probe() -> None:
    check("probe.txt", text_of(document(probe_record(against=(SHARE,), switches=(SWITCHING,)))))
