"""checkpoint-sync: a checkpoint passes pages, so the files that they are in must have been synced."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import CRASHES, Effect, Rule, Situation, on_crashes


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
