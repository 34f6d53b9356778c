"""flush-method: methods that leave out syncs."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes


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
