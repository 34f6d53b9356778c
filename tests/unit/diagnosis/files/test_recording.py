"""Recordings of flushlab watch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import pytest

from flushlab.diagnosis.diagnose import diagnose
from flushlab.diagnosis.files.folder import FoundFiles, tell
from flushlab.diagnosis.files.samples import evidence_of
from flushlab.diagnosis.load import Head, Stretch
from flushlab.errors import SamplesDisagree
from flushlab.record import ObservedLoad, Value
from tests.unit.diagnosis.files import outputs
from tests.unit.diagnosis.files.outputs import box
from tests.unit.telemetry.live.told import MYSQL97

HEAD = Head(
    place="db1:3306",
    server=MYSQL97,
    settings={"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1, "log_bin": "ON"},
)


def stretch(
    commits: int = 5000, commit_s: float | None = 30.0, changed: Mapping[str, Value] | None = None
) -> Stretch:
    return Stretch(
        ended_at=datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC),
        changed=changed or {},
        load=ObservedLoad(
            seconds=10.0,
            commits=commits,
            commits_by="Binlog_cache_use",
            source="samples",
            write_s=40.0,
            commit_s=commit_s,
            samples=200,
            redo_bytes=5e6,
            syncs={"redo": 4000.0},
        ),
    )


def text(*stretches: Stretch) -> str:
    return "".join(f"{msgspec.json.encode(one).decode()}\n" for one in (HEAD, *stretches))


def found(**texts: str) -> FoundFiles:
    return FoundFiles(key="x.load", files={name: tell(text) for name, text in texts.items()})


def test_a_recording_has_the_time_of_commits() -> None:
    evidence = evidence_of(found(a=text(stretch(), stretch())))
    assert evidence.seconds == 20.0
    assert evidence.commits == 500.0
    assert evidence.time.connections == {"commit": 3.0, "statement": 1.0}
    assert evidence.began == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    judged = diagnose(evidence)
    assert judged.answer.startswith("Writes are bound: commits wait for the sync of redo log and binary log")
    assert judged.findings[0].share is not None and judged.findings[0].share.mid == 0.75
    assert "redo log: 400 syncs/s, 0.80 per commit" in {one.text for one in judged.findings[0].seen}
    assert judged.not_judged[0].startswith("the client's turn")


def test_settings_that_changed_during_a_recording_are_in_force() -> None:
    relaxed = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}
    judged = diagnose(evidence_of(found(a=text(stretch(), stretch(changed=relaxed)))))
    assert judged.floor.startswith("throwaway")
    assert judged.findings[0].title == "commits take time, though they do not sync"
    assert "innodb_flush_log_at_trx_commit, sync_binlog: changed during the recording" in judged.not_judged


def test_a_recording_without_connections_has_no_time() -> None:
    judged = diagnose(evidence_of(found(a=text(stretch(commit_s=None)))))
    assert judged.answer.startswith("What bounds writes cannot be judged")


def test_a_line_that_was_cut_is_left_out() -> None:
    whole = text(stretch(), stretch())
    assert evidence_of(found(a=whole[:-40])).seconds == 10.0


@pytest.mark.parametrize("more", [{}, {"b": box(outputs.status())}, {"b": text(stretch())}])
def test_a_recording_is_judged_alone_and_with_something_in_it(more: dict[str, str]) -> None:
    with pytest.raises(SamplesDisagree) as caught:
        evidence_of(found(a=text(stretch()) if more else text(), **more))
    assert caught.value.hint
