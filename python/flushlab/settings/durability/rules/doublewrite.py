"""doublewrite: a page that was torn in mid-write can be repaired only from a second copy."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes

_TORN = {
    "OFF": "a torn page is beyond repair: doublewrite is off",
    "DETECT_ONLY": "a torn page is detected but not repaired: doublewrite only detects",
}


def _find(situation: Situation) -> Iterator[Effect]:
    way = str(situation.value("innodb_doublewrite"))
    if way == "fast":
        text = "doublewrite=fast may or may not be safe: data files are not synced before a checkpoint"
        yield Effect(on="torn_page", level="unknown", text=text)
        yield from on_crashes("unknown", text)
    elif way not in _TORN:
        yield Effect(on="torn_page", level="nothing_lost", text="covered: doublewrite repairs torn pages")
    elif _whole_pages(situation):
        text = f"covered: {situation.storage.filesystem} writes whole pages"
        yield Effect(on="torn_page", level="nothing_lost", text=text)
    else:
        yield Effect(on="torn_page", level="at_risk", text=_TORN[way])


def _whole_pages(situation: Situation) -> bool:
    """The file system is seen, and makes writes of whole pages atomic."""
    storage, page = situation.storage, int(situation.value("innodb_page_size") or 16384)
    record = storage.record_size_bytes if storage.visible else None
    return record is not None and record >= page and record % page == 0


DOUBLEWRITE = Rule(
    name="doublewrite",
    source="https://dev.mysql.com/doc/refman/8.0/en/innodb-doublewrite-buffer.html; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-doublewrite-buffer; "
    "https://github.com/MariaDB/server/pull/3091",
    find=_find,
)
