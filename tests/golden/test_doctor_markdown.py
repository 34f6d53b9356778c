from __future__ import annotations

import os

from flushlab.report.doctor import document
from flushlab.report.markdown import render
from flushlab.version import __version__
from tests.golden.test_reports import HERE
from tests.unit.diagnosis.half_minute import half_minute


def test_a_diagnosis_for_a_ticket() -> None:
    file, text = HERE / "doctor.md", render(document(half_minute())).replace(__version__, "VERSION")
    if os.environ.get("FLUSHLAB_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()
