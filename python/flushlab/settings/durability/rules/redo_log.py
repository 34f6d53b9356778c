"""redo-disabled: ALTER INSTANCE DISABLE INNODB REDO_LOG, which no variable shows."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes

_TEXT = "the whole data directory may be lost: the redo log is disabled"


def _find(situation: Situation) -> Iterator[Effect]:
    if not situation.launch.redo_enabled:
        yield Effect(on="process_crash", level="at_risk", text=_TEXT)
        yield from on_crashes("at_risk", _TEXT)


REDO_DISABLED = Rule(
    name="redo-disabled",
    source="https://dev.mysql.com/worklog/task/?id=13795",
    flavor="mysql",
    since=(8, 0, 21),
    find=_find,
)
