"""Contradictions: settings of which one cancels the other. Pure.

One function with `@_rule` is one contradiction. Each reads the settings of an option file and
yields the name that does not hold, the reason, the way out, and whether the server refuses to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from flushlab.record import ServerIdentity, Value
from flushlab.settings.configuration import Configuration
from flushlab.settings.option_names import shape_of

_ENGINES = {"innodb", "myisam", "memory", "heap", "merge", "mrg_myisam", "csv", "performance_schema"}
_ONLY = {"mysql": {"archive", "blackhole"}, "mariadb": {"aria", "sequence"}}
_LOADED = {
    *("archive", "blackhole", "federated", "federatedx", "connect", "rocksdb", "tokudb", "spider", "mroonga"),
    *("s3", "columnstore", "oqgraph", "sphinx", "ndb", "ndbcluster", "example"),
}
"""Engines of plugins, or switched off by default."""


class Contradiction(NamedTuple):
    """`why` is in words that follow `name`; `becomes` is the value that the server puts in its place."""

    name: str
    why: str
    hint: str | None = None
    fatal: bool = False
    becomes: Value | None = None


class GivenOptions(Configuration):
    def __init__(
        self, settings: Mapping[str, Value], others: Mapping[str, str], identity: ServerIdentity
    ) -> None:
        super().__init__({**others, **settings}, identity)
        self.settings = settings
        self.others = others


def contradictions(
    settings: Mapping[str, Value], others: Mapping[str, str], identity: ServerIdentity
) -> Iterator[Contradiction]:
    given = GivenOptions(settings, others, identity)
    for rule in _RULES:
        yield from rule(given)


_Rule = Callable[[GivenOptions], Iterator[Contradiction]]
_RULES: list[_Rule] = []


def _rule(find: _Rule) -> _Rule:
    _RULES.append(find)
    return find


@_rule
def _io_capacity(given: GivenOptions) -> Iterator[Contradiction]:
    if {"innodb_io_capacity", "innodb_io_capacity_max"} <= given.settings.keys():
        usual, most = given.number("innodb_io_capacity"), given.number("innodb_io_capacity_max")
        if usual > most:
            why = f"is {usual}, above innodb_io_capacity_max = {most}: the server lowers it to that"
            yield Contradiction("innodb_io_capacity", why, "raise innodb_io_capacity_max", becomes=most)


@_rule
def _dirty_pages(given: GivenOptions) -> Iterator[Contradiction]:
    low, high = "innodb_max_dirty_pages_pct_lwm", "innodb_max_dirty_pages_pct"
    if low in given.settings and given.number(low) > given.number(high):
        why = f"is {given.number(low):g}, above {high} = {given.number(high):g}: the server lowers it to that"
        yield Contradiction(low, why, becomes=given.number(high))


@_rule
def _flush_method(given: GivenOptions) -> Iterator[Contradiction]:
    booleans = [
        f"innodb_{file}_{how}" for file in ("data_file", "log_file") for how in ("buffering", "write_through")
    ]
    both = [name for name in booleans if name in given.settings]
    if "innodb_flush_method" in given.settings and both and given.value("innodb_data_file_buffering"):
        why = f"overrides {', '.join(both)}, which the file also sets"
        yield Contradiction("innodb_flush_method", why, "keep only the four booleans")


@_rule
def _redo(given: GivenOptions) -> Iterator[Contradiction]:
    older = [name for name in ("innodb_log_file_size", "innodb_log_files_in_group") if name in given.settings]
    if "innodb_redo_log_capacity" in given.settings:
        for name in older:
            why = "is ignored, because innodb_redo_log_capacity is set too"
            yield Contradiction(name, why, "keep only innodb_redo_log_capacity")


@_rule
def _server_id(given: GivenOptions) -> Iterator[Contradiction]:
    identity = given.identity
    if identity.flavor != "mysql" or identity.version >= (8, 0) or given.settings.get("log_bin") != "ON":
        return
    if given.others.get("server_id", "0") == "0":
        why = "needs a server_id: the server does not start"
        yield Contradiction("log_bin", why, "add server_id = 1", fatal=True)


@_rule
def _server_id_bits(given: GivenOptions) -> Iterator[Contradiction]:
    mysql, bits = given.identity.flavor == "mysql", given.others.get("server_id_bits", "")
    number = given.others.get("server_id", "1" if given.identity.version >= (8, 0) else "0")
    if mysql and bits.isdecimal() and number.isdecimal() and int(number) >> int(bits):
        why = f"is {bits}: server_id = {number} needs more bits, and the server does not start"
        yield Contradiction("server_id_bits", why, "leave it out", fatal=True)


@_rule
def _gtid(given: GivenOptions) -> Iterator[Contradiction]:
    if given.identity.flavor != "mysql" or given.identity.version >= (9, 0):
        return
    if given.settings.get("gtid_mode") == "ON":
        consistent = given.others.get("enforce_gtid_consistency", "OFF").upper()
        if consistent not in ("ON", "1", "TRUE"):
            why = "needs enforce_gtid_consistency = ON: the server does not start"
            yield Contradiction("gtid_mode", why, "add enforce_gtid_consistency = ON", fatal=True)


@_rule
def _write_sets(given: GivenOptions) -> Iterator[Contradiction]:
    name, extraction = "binlog_transaction_dependency_tracking", "transaction_write_set_extraction"
    default = "OFF" if given.identity.version < (8, 0, 2) else "XXHASH64"
    without = given.others.get(extraction, default).upper() in ("OFF", "0")
    if without and given.settings.get(name, "COMMIT_ORDER") in ("WRITESET", "WRITESET_SESSION"):
        why = f"needs {extraction}, which is OFF: the server does not start"
        yield Contradiction(name, why, f"add {extraction} = XXHASH64", fatal=True)


@_rule
def _old_accounts(given: GivenOptions) -> Iterator[Contradiction]:
    """MySQL 5.7.22 ends with `Unsupported value 0 for secure-auth` and `Invalid old_passwords mode: 1`."""
    if given.identity.flavor != "mysql" or given.identity.version[:2] != (5, 7):
        return
    for name, wrong in (("secure_auth", ("OFF", "0")), ("old_passwords", ("ON", "1"))):
        if given.others.get(name, "").upper() in wrong:
            why = f"is {given.others[name]}, which MySQL 5.7 no longer allows: the server does not start"
            yield Contradiction(name, why, "remove the line", fatal=True)


@_rule
def _statements(given: GivenOptions) -> Iterator[Contradiction]:
    if given.settings.get("binlog_format") != "STATEMENT" or given.value("log_bin") != "ON":
        return
    level = given.value("transaction_isolation")
    if level in ("READ-COMMITTED", "READ-UNCOMMITTED"):
        why = f"is STATEMENT, and InnoDB then refuses all writes at {level}"
        yield Contradiction("binlog_format", why, "write ROW")
    if given.value("innodb_autoinc_lock_mode") == 2:
        why = "is STATEMENT; with innodb_autoinc_lock_mode = 2, replicas then generate other numbers"
        yield Contradiction("binlog_format", why, "use ROW, or innodb_autoinc_lock_mode = 1")


@_rule
def _without_binlog(given: GivenOptions) -> Iterator[Contradiction]:
    """MySQL warns: "You need to use --log-bin to make --binlog-format work." (`mysqld.cc`). Galera needs the
    format without a log."""
    if given.identity.flavor != "mysql" or given.value("log_bin") != "OFF":
        return
    for name in ("binlog_format", "log_replica_updates", "log_slave_updates"):
        if given.settings.get(name, "OFF") != "OFF":
            yield Contradiction(name, "has no effect without a binary log", "set log_bin, or remove the line")


@_rule
def _group_commit(given: GivenOptions) -> Iterator[Contradiction]:
    pairs = (
        ("binlog_group_commit_sync_no_delay_count", "binlog_group_commit_sync_delay"),
        ("binlog_commit_wait_count", "binlog_commit_wait_usec"),
    )
    for count, wait in pairs:
        if given.settings.get(count) and not given.number(wait):
            yield Contradiction(count, f"has no effect while {wait} is 0")


@_rule
def _instances(given: GivenOptions) -> Iterator[Contradiction]:
    if given.identity.flavor != "mysql":
        return
    pool, count = given.number("innodb_buffer_pool_size"), given.number("innodb_buffer_pool_instances")
    if "innodb_buffer_pool_instances" in given.settings and count > 1 and pool < 1 << 30:
        why = f"is {count}; the server changes it to 1, because the buffer pool is below 1G"
        yield Contradiction("innodb_buffer_pool_instances", why, becomes=1)


@_rule
def _undo_tablespaces(given: GivenOptions) -> Iterator[Contradiction]:
    """https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_undo_tablespaces"""
    name, identity = "innodb_undo_tablespaces", given.identity
    if identity.flavor == "mysql" and identity.version >= (8, 0, 14) and given.settings.get(name, 2) != 2:
        why = f"is {given.settings[name]}; the server changes it to 2, as it does since 8.0.14"
        yield Contradiction(name, why, "remove it; CREATE UNDO TABLESPACE adds one", becomes=2)


@_rule
def _collation(given: GivenOptions) -> Iterator[Contradiction]:
    """Families of collations that came late: MySQL 8.0.1 and MDEV-20912; MDEV-27009."""
    mysql, version = given.identity.flavor == "mysql", given.identity.version
    collation = given.others.get("collation_server", "").lower()
    lacks_0900 = version < ((8, 0, 1) if mysql else (11, 4, 5))
    lacks_1400 = mysql or version < (10, 10, 1)
    if (lacks_0900 and "_0900_" in collation) or (lacks_1400 and "_uca1400_" in collation):
        why = f"is {collation}, which this server does not have: the server does not start"
        yield Contradiction("collation_server", why, "write utf8mb4_unicode_520_ci", fatal=True)
        return
    sets = shape_of("character_set_server", given.identity.flavor, version)
    family = collation.partition("_")[0]
    if "collation_server" in given.others and sets is not None and family not in (*sets.values, "uca1400"):
        why = f"is {collation!r}, which is no collation of this server: the server does not start"
        yield Contradiction("collation_server", why, fatal=True)


@_rule
def _utf8(given: GivenOptions) -> Iterator[Contradiction]:
    """MySQL 9.7 refuses the name utf8 in options: "Character set 'utf8' rejected as command line option"."""
    if given.identity.flavor != "mysql" or given.identity.version < (9, 7):
        return
    for name in ("character_set_server", "character_set_filesystem", "collation_server"):
        value = given.others.get(name, "").lower()
        if value == "utf8" or value.startswith("utf8_"):
            instead = value.replace("utf8", "utf8mb4", 1)
            why = f"is {value}, a name that this server refuses: the server does not start"
            yield Contradiction(
                name, why, f"write {instead}, or {value.replace('utf8', 'utf8mb3', 1)}", fatal=True
            )


@_rule
def _engine(given: GivenOptions) -> Iterator[Contradiction]:
    """Servers end with `Unknown/unsupported storage engine` (`mysqld.cc`, init_default_storage_engine)."""
    own = _ENGINES | _ONLY[given.identity.flavor]
    for name in ("default_storage_engine", "default_tmp_storage_engine"):
        engine = given.others.get(name, "").lower()
        if engine in _LOADED - own:
            why = f"is {engine}: the server does not start unless a plugin or an option brings that engine"
            yield Contradiction(name, why)
        elif engine and engine not in own:
            why = f"is {engine!r}, which is no storage engine of this server: the server does not start"
            yield Contradiction(name, why, "write InnoDB", fatal=True)
    without = given.identity.flavor == "mariadb" and given.others.get("innodb", "").upper() in ("OFF", "0")
    if without and given.others.get("default_storage_engine", "innodb").lower() == "innodb":
        why = "is OFF, but the default storage engine is InnoDB: the server does not start"
        yield Contradiction("innodb", why, "remove the line", fatal=True)
