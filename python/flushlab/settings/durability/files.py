"""Files: durability rules of pages, file locations, storage and the server's start. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from flushlab.settings.catalog import canonical
from flushlab.settings.durability.guarantee import CRASHES, Effect, Rule, Situation, on_crashes


def _find(situation: Situation) -> Iterator[Effect]:
    """MariaDB syncs its data files, then looks for the oldest page that is still to be written, and puts the
    checkpoint there. A page whose write ends in between is behind the checkpoint without a sync, for about a
    second. With O_DIRECT the sync of the redo log takes it along, but not on btrfs, where no setting mends
    it, so that it lowers no floor."""
    if not _direct(situation):
        yield from on_crashes(
            "at_risk",
            "tables may be damaged, or the server may not start again: checkpoints pass pages that are still"
            " in the page cache, not synced",
        )
    elif situation.storage.visible and situation.storage.filesystem == "btrfs":
        text = "MariaDB may not start again on btrfs, whatever its settings: checkpoints pass unsynced pages"
        yield from (Effect(on=failure, level="nothing_lost", text=text, remark=True) for failure in CRASHES)


def _direct(situation: Situation) -> bool:
    """Writes of pages do not end in the page cache. The old name counts beside the new ones, too: an option
    file may have it."""
    method = situation.value("innodb_flush_method")
    direct = method is None or str(method).startswith("O_DIRECT")
    if situation.is_on("innodb_data_file_write_through"):
        return True
    if method == "O_DSYNC" and situation.identity.version >= (11, 0, 1):  # it stands for writing through
        return True
    return direct and not situation.is_on("innodb_data_file_buffering")


CHECKPOINT = Rule(
    name="checkpoint-sync",
    source="https://github.com/MariaDB/server/blob/10.11/storage/innobase/buf/buf0flu.cc (log_checkpoint);"
    " docs/results/reports/mariadb-checkpoint-before-sync.md",
    flavor="mariadb",
    since=(10, 8),
    find=_find,
)


def _checksums_find(situation: Situation) -> Iterator[Effect]:
    algorithm = situation.value("innodb_checksum_algorithm")
    if algorithm in ("none", "strict_none") or situation.value("innodb_checksums") == "OFF":
        yield Effect(on="torn_page", level="at_risk", text="torn pages go unnoticed: page checksums are off")
    if situation.value("innodb_log_checksums") == "OFF":
        yield from on_crashes("unknown", "recovery cannot detect a torn redo block: redo checksums are off")


CHECKSUMS = Rule(
    name="checksums",
    source="https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_checksum_algorithm",
    find=_checksums_find,
)


_TORN = {
    "OFF": "a torn page is beyond repair: doublewrite is off",
    "DETECT_ONLY": "a torn page is detected but not repaired: doublewrite only detects",
}


def _doublewrite_find(situation: Situation) -> Iterator[Effect]:
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
    find=_doublewrite_find,
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


def _find_unsynced(situation: Situation) -> Iterator[Effect]:
    method = situation.value("innodb_flush_method")
    if method in ("nosync", "littlesync"):
        text = f"the data directory may be beyond repair: innodb_flush_method={method} skips syncs"
        yield from on_crashes("at_risk", text)
        yield Effect(on="torn_page", level="at_risk", text=text)


def _find_unfixed(situation: Situation) -> Iterator[Effect]:
    if situation.value("innodb_flush_method") == "O_DIRECT_NO_FSYNC":
        yield from on_crashes(
            "at_risk",
            "the data directory may be beyond repair: O_DIRECT_NO_FSYNC never syncs file metadata here",
        )


def _find_no_fsync(situation: Situation) -> Iterator[Effect]:
    if situation.value("innodb_flush_method") != "O_DIRECT_NO_FSYNC":
        return
    if situation.identity.flavor == "mysql" and not _unfixed(situation.identity.version):
        storage = situation.storage
        if not storage.redo_on_same_device and storage.volatile_cache is not False:
            yield from on_crashes(
                "unknown",
                "pages may be lost: O_DIRECT_NO_FSYNC with redo log and data on different devices whose "
                "caches may be volatile",
            )
    elif situation.identity.flavor == "mariadb":
        yield from on_crashes("unknown", "O_DIRECT_NO_FSYNC skips syncs, and no rule covers MariaDB")


def _unfixed(version: tuple[int, ...]) -> bool:
    """Before 5.7.25 and 8.0.14 file metadata was never synced (their release notes)."""
    return version < (5, 7, 25) or (8, 0) <= version < (8, 0, 14)


UNSYNCED = Rule(
    name="flush-method",
    source="https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_flush_method",
    find=_find_unsynced,
)
NO_FSYNC_UNFIXED = Rule(
    name="flush-method",
    source="https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html (its warning on 8.0.14)",
    flavor="mysql",
    find=lambda situation: _find_unfixed(situation) if _unfixed(situation.identity.version) else (),
)
NO_FSYNC = Rule(
    name="flush-method",
    source="https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_flush_method; "
    "https://github.com/MariaDB/server/pull/3091",
    find=_find_no_fsync,
)


_OFF = {"0", "OFF", "FALSE", "NO"}
_ALLOCATOR = re.compile(r"lib(jemalloc|tcmalloc|tcmalloc_minimal|mimalloc)\b.*\.so.*")
_NO_SYNC_LIBRARY = re.compile(r"lib(eatmydata|nosync)\b.*\.so.*")


def _syncs_off(arguments: tuple[str, ...]) -> bool:
    """Whether the last spelling of --debug-no-sync switches it on."""
    off = False
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        name = canonical(name).removeprefix("loose_")
        if name == "debug_no_sync":
            off = value.upper() not in _OFF
        elif name in ("skip_debug_no_sync", "disable_debug_no_sync"):
            off = False
    return off


def _find_debug(situation: Situation) -> Iterator[Effect]:
    if situation.is_on("debug_no_sync") or _syncs_off(situation.launch.arguments):
        text = "the data directory may be beyond repair: --debug-no-sync turns off all syncs"
        yield from on_crashes("at_risk", text)
        yield Effect(on="torn_page", level="at_risk", text=text)


def _find_preload(situation: Situation) -> Iterator[Effect]:
    libraries = re.split(r"[:\s]+", (situation.launch.preload or "").strip())
    for library in filter(None, libraries):
        name = PurePath(library).name
        if _ALLOCATOR.fullmatch(name):
            continue
        if _NO_SYNC_LIBRARY.fullmatch(name):
            text = f"the data directory may be beyond repair: the preloaded {name} makes syncs do nothing"
            yield from on_crashes("at_risk", text)
            yield Effect(on="torn_page", level="at_risk", text=text)
        else:
            yield from on_crashes("unknown", f"the preloaded library {name} may change what syncs do")


DEBUG_NO_SYNC = Rule(
    name="launch",
    source="https://mariadb.com/docs/server/server-management/starting-and-stopping-mariadb/mariadbd-options"
    "#debug-no-sync",
    find=_find_debug,
)
PRELOAD = Rule(
    name="launch",
    source="https://man7.org/linux/man-pages/man8/ld.so.8.html; https://www.flamingspork.com/projects/libeatmydata/",
    find=_find_preload,
)


LOCATIONS = {
    "datadir": "the data directory",
    "innodb_data_home_dir": "the system tablespace",
    "innodb_log_group_home_dir": "the redo log",
    "innodb_undo_directory": "the undo log",
    "innodb_doublewrite_dir": "the doublewrite buffer",
    "log_bin_basename": "the binary log",
    "binlog_directory": "the binary log",
}
"""Settings that say where files lie, and what they hold."""

_IN_MEMORY = ("/dev/shm/", "/run/", "/var/run/")
"""File systems in memory on every Linux (file-hierarchy(7))."""


def _locations_find(situation: Situation) -> Iterator[Effect]:
    for name, files in LOCATIONS.items():
        place = str(situation.value(name) or "")
        if name not in situation.storage.in_memory_files and not f"{place}/".startswith(_IN_MEMORY):
            continue
        if files == "the binary log":
            if situation.has_binlog:
                text = "the binary log is in memory: it is lost, and so are commits that only it confirms"
                yield Effect(on="binlog", level="at_risk", text=text)
                yield from on_crashes("unknown", text)
        elif name == "innodb_doublewrite_dir":
            text = f"a torn page is beyond repair: {files} is in memory"
            yield Effect(on="torn_page", level="at_risk", text=text)
        else:
            yield from on_crashes("at_risk", f"the data may be beyond repair: {files} is in memory")


IN_MEMORY = Rule(
    name="locations",
    source="https://www.kernel.org/doc/html/latest/filesystems/tmpfs.html; "
    "https://dev.mysql.com/doc/refman/8.0/en/innodb-init-startup-configuration.html",
    find=_locations_find,
)


def _storage_find(situation: Situation) -> Iterator[Effect]:
    storage = situation.storage
    if not storage.visible:
        text = "flushlab cannot see the server's host, so whether its disk honors flushes is unknown"
        yield Effect(on="power_loss", level="unknown", text=text, remark=True)
    elif storage.in_memory:
        yield from on_crashes("at_risk", "everything is lost: the data directory is in memory", whole=True)


STORAGE = Rule(
    name="storage",
    source="https://www.kernel.org/doc/html/latest/filesystems/tmpfs.html",
    find=_storage_find,
)
