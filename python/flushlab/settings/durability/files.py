"""Files: durability rules of pages, file locations, storage and the server's start. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from flushlab.settings.catalog import canonical
from flushlab.settings.durability.guarantee import CRASHES, Effect, Situation, on_crashes, rule

_TORN = {
    "OFF": "a torn page is beyond repair: doublewrite is off",
    "DETECT_ONLY": "a torn page is detected but not repaired: doublewrite only detects",
}
_BEYOND_REPAIR = "the data directory may be beyond repair"
_TMPFS = "https://www.kernel.org/doc/html/latest/filesystems/tmpfs.html"

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

_OFF = {"0", "OFF", "FALSE", "NO"}
_ALLOCATOR = re.compile(r"lib(jemalloc|tcmalloc|tcmalloc_minimal|mimalloc)\b.*\.so.*")
_NO_SYNC_LIBRARY = re.compile(r"lib(eatmydata|nosync)\b.*\.so.*")


@rule(
    "doublewrite",
    "https://dev.mysql.com/doc/refman/8.0/en/innodb-doublewrite-buffer.html; "
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-doublewrite-buffer; "
    "https://github.com/MariaDB/server/pull/3091",
)
def doublewrite(situation: Situation) -> Iterator[Effect]:
    """A page that was torn in mid-write can be repaired only from a second copy that is whole."""
    way = str(situation.value("innodb_doublewrite"))
    if way == "fast":
        text = "doublewrite=fast may or may not be safe: data files are not synced before a checkpoint"
        yield Effect("torn_page", "unknown", text)
        yield from on_crashes("unknown", text)
    elif way not in _TORN:
        yield Effect("torn_page", "nothing_lost", "covered: doublewrite repairs torn pages")
    elif _writes_whole_pages(situation):
        text = f"covered: {situation.storage.filesystem} writes whole pages"
        yield Effect("torn_page", "nothing_lost", text)
    else:
        yield Effect("torn_page", "at_risk", _TORN[way])


@rule(
    "doublewrite-sync",
    "https://github.com/mysql/mysql-server/blob/mysql-8.4.10/storage/innobase/buf/buf0dblwr.cc"
    " (is_fsync_required); docs/results/crash.md",
    flavor="mysql",
)
def unsynced_copy(situation: Situation) -> Iterator[Effect]:
    """MySQL trusts O_DIRECT with the copies, which leaves them in the disk's cache: a page is written while
    its copy is still in there, and a power cut tears both. Before 8.0.20 copies were synced with the system
    tablespace that they were in."""
    storage, method = situation.storage, situation.value("innodb_flush_method")
    in_files = situation.identity.version >= (8, 0, 20)
    is_unsynced = method == "O_DIRECT_NO_FSYNC" or (method == "O_DIRECT" and in_files)
    if not is_unsynced or _writes_whole_pages(situation):
        return
    if storage.in_memory or storage.volatile_cache is False:
        return
    if storage.volatile_cache:  # doublewrite that is off is no better
        torn = "a page that is torn in the disk's volatile cache may have no whole copy"
        text = f"the server may not start again: {torn}, as {method} does not sync copies"
        yield Effect("power_loss", "at_risk", text)
    elif str(situation.value("innodb_doublewrite")) not in _TORN:
        text = f"but not in a power cut behind a volatile disk cache: {method} does not sync the copies"
        yield Effect("torn_page", "nothing_lost", text)


@rule(
    "aria-pages",
    "https://mariadb.com/kb/en/library/is-aria-a-good-choice-in-environments-where-power-often-fails/;"
    " docs/results/crash.md",
    flavor="mariadb",
    since=(10, 4),
)
def aria_pages(situation: Situation) -> Iterator[Effect]:
    """Tables of Aria, which MariaDB's own are since 10.4, have no doublewrite. No setting changes that."""
    repairs = str(situation.value("innodb_doublewrite")) not in (*_TORN, "fast")
    if repairs and not situation.storage.in_memory and not _writes_whole_pages(situation):
        text = "but not those of Aria tables (accounts): with one torn, the server may not start"
        yield Effect("torn_page", "nothing_lost", text, remark=True)


def _writes_whole_pages(situation: Situation) -> bool:
    storage, page = situation.storage, int(situation.value("innodb_page_size") or 16384)
    record = storage.record_size_bytes if storage.visible else None
    return record is not None and record >= page and record % page == 0


@rule(
    "checkpoint-sync",
    "https://github.com/MariaDB/server/blob/10.11/storage/innobase/buf/buf0flu.cc (log_checkpoint);"
    " docs/results/reports/mariadb-checkpoint-before-sync.md",
    flavor="mariadb",
    since=(10, 8),
)
def checkpoint(situation: Situation) -> Iterator[Effect]:
    """A checkpoint passes pages, so the files that they are in must have been synced.

    MariaDB syncs its data files, then looks for the oldest page that is still to be written, and puts the
    checkpoint there. A page whose write ends in between is behind the checkpoint without a sync, for about a
    second. With O_DIRECT the sync of the redo log takes it along, but not on btrfs, where no setting mends
    it, so that it lowers no floor.
    """
    if not _ends_outside_the_page_cache(situation):
        unsynced = "checkpoints pass pages that are still in the page cache, not synced"
        text = f"tables may be damaged, or the server may not start again: {unsynced}"
        yield from on_crashes("at_risk", text)
    elif situation.storage.visible and situation.storage.filesystem == "btrfs":
        text = "MariaDB may not start again on btrfs, whatever its settings: checkpoints pass unsynced pages"
        yield from (Effect(failure, "nothing_lost", text, remark=True) for failure in CRASHES)


def _ends_outside_the_page_cache(situation: Situation) -> bool:
    """Of writes of pages. The old name counts beside the new ones, too: an option file may have it."""
    method = situation.value("innodb_flush_method")
    if situation.is_on("innodb_data_file_write_through"):
        return True
    if method == "O_DSYNC" and situation.identity.version >= (11, 0, 1):  # it stands for writing through
        return True
    is_direct = method is None or str(method).startswith("O_DIRECT")
    return is_direct and not situation.is_on("innodb_data_file_buffering")


@rule(
    "checksums",
    "https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_checksum_algorithm",
)
def checksums(situation: Situation) -> Iterator[Effect]:
    algorithm = situation.value("innodb_checksum_algorithm")
    if algorithm in ("none", "strict_none") or situation.value("innodb_checksums") == "OFF":
        yield Effect("torn_page", "at_risk", "torn pages go unnoticed: page checksums are off")
    if situation.value("innodb_log_checksums") == "OFF":
        yield from on_crashes("unknown", "recovery cannot detect a torn redo block: redo checksums are off")


@rule(
    "flush-method",
    "https://dev.mysql.com/doc/refman/5.7/en/innodb-parameters.html#sysvar_innodb_flush_method",
)
def unsynced(situation: Situation) -> Iterator[Effect]:
    method = situation.value("innodb_flush_method")
    if method in ("nosync", "littlesync"):
        yield from _without_syncs(f"innodb_flush_method={method} skips syncs")


@rule(
    "flush-method",
    "https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html (its warning on 8.0.14)",
    flavor="mysql",
)
def no_fsync_unfixed(situation: Situation) -> Iterator[Effect]:
    if situation.value("innodb_flush_method") == "O_DIRECT_NO_FSYNC" and _syncs_no_metadata(situation):
        yield from on_crashes(
            "at_risk", f"{_BEYOND_REPAIR}: O_DIRECT_NO_FSYNC never syncs file metadata here"
        )


@rule(
    "flush-method",
    "https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_flush_method; "
    "https://github.com/MariaDB/server/pull/3091",
)
def no_fsync(situation: Situation) -> Iterator[Effect]:
    if situation.value("innodb_flush_method") != "O_DIRECT_NO_FSYNC":
        return
    if situation.identity.flavor == "mariadb":
        yield from on_crashes("unknown", "O_DIRECT_NO_FSYNC skips syncs, and no rule covers MariaDB")
    elif not _syncs_no_metadata(situation):
        storage = situation.storage
        if not storage.redo_on_same_device and storage.volatile_cache is not False:
            apart = "with redo log and data on different devices whose caches may be volatile"
            yield from on_crashes("unknown", f"pages may be lost: O_DIRECT_NO_FSYNC {apart}")


def _syncs_no_metadata(situation: Situation) -> bool:
    """Before 5.7.25 and 8.0.14 file metadata was never synced (their release notes)."""
    version = situation.identity.version
    return version < (5, 7, 25) or (8, 0) <= version < (8, 0, 14)


@rule("storage", _TMPFS)
def storage(situation: Situation) -> Iterator[Effect]:
    """Data in memory is gone with the operating system; the disk of an unseen host is not known."""
    if not situation.storage.visible:
        text = "flushlab cannot see the server's host, so whether its disk honors flushes is unknown"
        yield Effect("power_loss", "unknown", text, remark=True)
    elif situation.storage.in_memory:
        yield from on_crashes("at_risk", "everything is lost: the data directory is in memory", whole=True)


@rule(
    "locations",
    f"{_TMPFS}; https://dev.mysql.com/doc/refman/8.0/en/innodb-init-startup-configuration.html",
)
def in_memory(situation: Situation) -> Iterator[Effect]:
    for name, files in LOCATIONS.items():
        place = str(situation.value(name) or "")
        if name not in situation.storage.in_memory_files and not f"{place}/".startswith(_IN_MEMORY):
            continue
        if files == "the binary log":
            if situation.has_binlog:
                text = "the binary log is in memory: it is lost, and so are commits that only it confirms"
                yield Effect("binlog", "at_risk", text)
                yield from on_crashes("unknown", text)
        elif name == "innodb_doublewrite_dir":
            yield Effect("torn_page", "at_risk", f"a torn page is beyond repair: {files} is in memory")
        else:
            yield from on_crashes("at_risk", f"the data may be beyond repair: {files} is in memory")


@rule(
    "launch",
    "https://mariadb.com/docs/server/server-management/starting-and-stopping-mariadb/mariadbd-options"
    "#debug-no-sync",
)
def debug_no_sync(situation: Situation) -> Iterator[Effect]:
    """The last spelling of --debug-no-sync, which no variable shows, decides."""
    is_off = False
    for argument in situation.launch.arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        name = canonical(name).removeprefix("loose_")
        if name == "debug_no_sync":
            is_off = value.upper() not in _OFF
        elif name in ("skip_debug_no_sync", "disable_debug_no_sync"):
            is_off = False
    if situation.is_on("debug_no_sync") or is_off:
        yield from _without_syncs("--debug-no-sync turns off all syncs")


@rule(
    "launch",
    "https://man7.org/linux/man-pages/man8/ld.so.8.html; https://www.flamingspork.com/projects/libeatmydata/",
)
def preload(situation: Situation) -> Iterator[Effect]:
    libraries = re.split(r"[:\s]+", (situation.launch.preload or "").strip())
    for name in (PurePath(library).name for library in libraries if library):
        if _NO_SYNC_LIBRARY.fullmatch(name):
            yield from _without_syncs(f"the preloaded {name} makes syncs do nothing")
        elif not _ALLOCATOR.fullmatch(name):
            yield from on_crashes("unknown", f"the preloaded library {name} may change what syncs do")


def _without_syncs(why: str) -> Iterator[Effect]:
    yield from on_crashes("at_risk", f"{_BEYOND_REPAIR}: {why}")
    yield Effect("torn_page", "at_risk", f"{_BEYOND_REPAIR}: {why}")
