"""What was found, for tests of what shows it."""

from __future__ import annotations

from flushlab.watch.live_diagnosis import JudgedWindow
from tests.unit.diagnosis.half_minute import half_minute

JUDGED = JudgedWindow(
    diagnosis=half_minute(), now={"commit": 11.0, "client": 2.5}, wait_s={"client": 40.5, "commit": 321.25}
)
