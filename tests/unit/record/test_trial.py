from __future__ import annotations

import msgspec

from flushlab.record import FileActivity, Trial, Warning
from tests.unit.records import trial


def test_file_activity_survives_the_store() -> None:
    activity = {"redo": FileActivity(fsyncs=3, bytes=512, flags=("O_DIRECT",)), "binlog": FileActivity()}
    record = trial(file_activity=activity, warnings=(Warning("no-effect", "x=1 reads back, but …", "x"),))
    assert msgspec.json.decode(msgspec.json.encode(record), type=Trial) == record


def test_a_record_from_before_file_activity_still_decodes() -> None:
    now = trial(warnings=(Warning("errors", "2 statements failed"),))
    stored = msgspec.json.decode(msgspec.json.encode(now))
    del stored["file_activity"]
    assert stored["warnings"] == [{"slug": "errors", "text": "2 statements failed"}]
    assert msgspec.convert(stored, Trial).file_activity == {}
