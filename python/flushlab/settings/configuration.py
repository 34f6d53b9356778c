"""Configuration: what the value of a setting is on one server. Pure.

Sits in `settings`, on the catalog; durability rules, candidates, contradictions, comparisons and reports ask
here and nowhere else. What the server reported counts first, then what was given, then the default of its
version; names follow aliases, and values are held as the catalog types them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flushlab.errors import UsageError, ValueOutOfRange
from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, canonical, load_catalog
from flushlab.units import parse_size

NO_BINLOG = "no effect without a binary log"
LOST_AT_RESTART = "SET GLOBAL is lost at a restart"
"""Said wherever a SET GLOBAL is run or handed over."""
_CACHES_OF_WRITE_SETS = {"binlog_cache_size"}
"""Galera fills them on its nodes, whether there is a binary log or not."""
_INTEGER = re.compile(r"-?\d+")
_REAL = re.compile(r"-?\d+\.\d+")
_SIZE = re.compile(r"\d+[KMGT]", re.IGNORECASE)
_WORDS: Mapping[str, Value] = {"ON": 1, "TRUE": 1, "YES": 1, "OFF": 0, "FALSE": 0, "NO": 0}


class Configuration:
    """The settings of one server; values that the running server reported win over given ones."""

    def __init__(
        self,
        given: Mapping[str, Value],
        identity: ServerIdentity,
        read_back: Mapping[str, Value] | None = None,
    ) -> None:
        self.identity = identity
        self._given = {_known_as(name): value for name, value in given.items()}
        self._read_back = {_known_as(name): value for name, value in (read_back or {}).items()}

    def here(self, name: str) -> SettingHere | None:
        catalog = load_catalog()
        return catalog.here(name, self.identity.flavor, self.identity.version) if name in catalog else None

    def value(self, name: str) -> Value | None:
        name, here = _known_as(name), self.here(name)
        if name in self._read_back:
            return typed(self._read_back[name], here)
        if here is None:
            return None if name in load_catalog() else self._given.get(name)
        given = self._given.get(name)
        if given is None and name == "innodb_flush_method" and self._derives_flush_method:
            return "O_DIRECT_NO_FSYNC"
        return here.parse(here.default if given is None else given)

    @property
    def _derives_flush_method(self) -> bool:
        """innodb_dedicated_server chooses it until MySQL 8.4
        (https://dev.mysql.com/doc/refman/8.0/en/innodb-dedicated-server.html,
        https://lefred.be/content/mysql-8-4-lts-new-production-ready-defaults-for-innodb/)."""
        its = self.identity
        return its.flavor == "mysql" and its.version < (8, 4) and self.is_on("innodb_dedicated_server")

    def as_reported(self) -> dict[str, Value]:
        return {
            name: self._read_back[name]
            if name in self._read_back
            and self.here(name) is None
            and not self.same(name, value, self._read_back[name])
            else value
            for name, value in self._given.items()
        }

    def number(self, name: str) -> int | float:
        value = self.value(name)
        return 0 if value is None or isinstance(value, str) else value

    def is_on(self, name: str) -> bool:
        return str(self.value(name)).upper() in ("ON", "1", "TRUE")

    def is_set(self, *names: str) -> bool:
        return any(_known_as(name) in (*self._given, *self._read_back) for name in names)

    def same(self, name: str, one: Value | None, other: Value | None) -> bool:
        if one is None or other is None:
            return one is other
        here = self.here(name)
        if here is not None:
            return here.same(one, other)
        first, second = _plain(literal(one, None)), _plain(literal(other, None))
        return first == second or _same_list(first, second)

    def without_effect(self, name: str) -> str:
        here = self.here(name)
        if here is None or not here.entry.binlog or self.is_on("log_bin"):
            return ""
        return "" if self.identity.nodes > 1 and here.name in _CACHES_OF_WRITE_SETS else NO_BINLOG

    def default(self, name: str) -> Value | None:
        here = self.here(name)
        return None if here is None or here.computed else here.parse(here.default)

    @property
    def redo_capacity_bytes(self) -> int:
        """Bytes of the whole redo log.

        MySQL since 8.0.30: innodb_redo_log_capacity, or the two older variables if only those are given, as
        the manual has it (https://dev.mysql.com/doc/refman/8.0/en/innodb-redo-log.html). Before, and on
        MariaDB: innodb_log_file_size times innodb_log_files_in_group (1 where that is gone).
        """
        capacity = int(self.number("innodb_redo_log_capacity"))
        older = self.is_set("innodb_log_file_size", "innodb_log_files_in_group")
        if capacity and (self.is_set("innodb_redo_log_capacity") or not older):
            return capacity
        files = int(self.number("innodb_log_files_in_group")) or 1
        return int(self.number("innodb_log_file_size")) * files or capacity


def typed(given: Value, here: SettingHere | None) -> Value:
    if here is not None:
        try:
            return here.parse(given)
        except ValueOutOfRange:
            return given  # the server knows more than the catalog: what it says is what it is
    if not isinstance(given, str):
        return given
    if _INTEGER.fullmatch(given):
        return int(given)
    return float(given) if _REAL.fullmatch(given) else given


def literal(value: Value, here: SettingHere | None) -> Value:
    if here is None and isinstance(value, str) and _SIZE.fullmatch(text := value.strip()):
        try:
            return parse_size(text)
        except UsageError:
            return value
    return typed(value, here)


def _plain(value: Value) -> Value:
    return _WORDS.get(value.upper(), value.upper()) if isinstance(value, str) else value


def _same_list(one: Value, other: Value) -> bool:
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    first, second = set(one.split(",")), set(other.split(","))
    switches = all("=" in part for part in first | second)
    return first == second or (switches and (first <= second or second <= first))


def _known_as(name: str) -> str:
    catalog = load_catalog()
    return catalog.setting(name).name if name in catalog else canonical(name)


# Beside those that the catalog marks. innodb_data_file_path: MySQL 8.0 manual, 17.6.3.1;
# lower_case_table_names: 9.2.3; innodb_checksum_algorithm: its strict_ values refuse pages of another kind;
# aria_block_size: fixed in aria_log_control.
_BESIDE = {"innodb_data_file_path", "lower_case_table_names", "innodb_checksum_algorithm", "aria_block_size"}


def layout_of(settings: Mapping[str, Value]) -> dict[str, Value]:
    catalog = load_catalog()
    return {
        name: value
        for name, value in sorted(settings.items())
        if name in _BESIDE or (name in catalog and catalog.setting(name).layout)
    }
