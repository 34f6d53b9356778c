"""Redo capacity: one figure from the settings that servers have had for it.

Sits in `settings`, pure. Trials need it: a window counts for redo, pool and flushing settings only when
enough redo was written in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import load_catalog


def redo_capacity_bytes(settings: Mapping[str, Value], identity: ServerIdentity) -> int:
    """Bytes of the whole redo log under these settings; what they leave out counts as the default.

    MySQL since 8.0.30: innodb_redo_log_capacity, or the two older variables if only those are given, as the
    manual has it (https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html). Before, and on MariaDB:
    innodb_log_file_size times innodb_log_files_in_group (1 where that is gone).
    """
    capacity = _number("innodb_redo_log_capacity", settings, identity)
    older = {"innodb_log_file_size", "innodb_log_files_in_group"} & settings.keys()
    if capacity is not None and ("innodb_redo_log_capacity" in settings or not older):
        return capacity
    size = _number("innodb_log_file_size", settings, identity)
    if size is None:
        return capacity or 0
    return size * (_number("innodb_log_files_in_group", settings, identity) or 1)


def _number(name: str, settings: Mapping[str, Value], identity: ServerIdentity) -> int | None:
    here = load_catalog().here(name, identity.flavor, identity.version)
    if here is None:
        return None
    value = here.parse(settings.get(name, here.default))
    return value if isinstance(value, int) else None
