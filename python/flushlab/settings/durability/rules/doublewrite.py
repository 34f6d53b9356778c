"""doublewrite: a page that was torn in mid-write can be repaired only from a second copy that is whole."""

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


def _find_unsynced_copy(situation: Situation) -> Iterator[Effect]:
    """MySQL trusts O_DIRECT with the copies, which leaves them in the disk's cache: a page is written while
    its copy is still in there, and a power cut tears both. Before 8.0.20 copies were synced with the system
    tablespace that they were in."""
    storage, method = situation.storage, situation.value("innodb_flush_method")
    in_files = situation.identity.version >= (8, 0, 20)
    unsynced = method == "O_DIRECT_NO_FSYNC" or (method == "O_DIRECT" and in_files)
    if not unsynced or _whole_pages(situation):
        return
    if storage.in_memory or storage.volatile_cache is False:
        return
    if storage.volatile_cache:  # doublewrite that is off is no better
        text = (
            "the server may not start again: a page that is torn in the disk's volatile cache may have no"
            f" whole copy, as {method} does not sync copies"
        )
        yield Effect(on="power_loss", level="at_risk", text=text)
    elif str(situation.value("innodb_doublewrite")) not in _TORN:
        text = f"but not in a power cut behind a volatile disk cache: {method} does not sync the copies"
        yield Effect(on="torn_page", level="nothing_lost", text=text)


def _find_aria(situation: Situation) -> Iterator[Effect]:
    """Tables of Aria, which MariaDB's own are since 10.4, have no doublewrite. No setting changes that."""
    repairs = str(situation.value("innodb_doublewrite")) not in (*_TORN, "fast")
    if repairs and not situation.storage.in_memory and not _whole_pages(situation):
        text = "but not those of Aria tables (accounts): with one torn, the server may not start"
        yield Effect(on="torn_page", level="nothing_lost", text=text, remark=True)


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
UNSYNCED_COPY = Rule(
    name="doublewrite-sync",
    source="https://github.com/mysql/mysql-server/blob/mysql-8.4.10/storage/innobase/buf/buf0dblwr.cc"
    " (is_fsync_required); docs/results/crash.md",
    flavor="mysql",
    find=_find_unsynced_copy,
)
ARIA_PAGES = Rule(
    name="aria-pages",
    source="https://mariadb.com/kb/en/library/is-aria-a-good-choice-in-environments-where-power-often-fails/;"
    " docs/results/crash.md",
    flavor="mariadb",
    since=(10, 4),
    find=_find_aria,
)
