"""Option names: which options servers take, and which values, beyond the settings of the catalog.

Sits in `settings`: pure apart from reading the packaged files once. `scripts/option_names.py` makes
`option_names.txt` and `option_shapes.txt` by asking servers with `--verbose --help`; `tests/contract`
compares them. They know a few releases; about one that lies between them they may be undecided.
`removed_options.txt` tells when an option ended and its successors, `deprecated_options.txt` what is to end.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast, get_args

import msgspec

from flushlab.record import Value
from flushlab.record.machine import Flavor
from flushlab.settings.catalog import (
    canonical,
    is_within,
    load_catalog,
    packaged,
    span_words,
    version_of,
)

_TAKEN, _LIMITED, _IGNORED = "+", "^", "o"
_EARLIER = "~"

NEAR = 0.8
"""How alike a name must be to be named as the one that was meant (difflib's ratio)."""
ALIKE, SAME = 0.6, 0.94
"""How alike each word of it must be; how alike the letters, where the words are not as many."""


class Release(NamedTuple):
    flavor: Flavor
    version: tuple[int, ...]

    @classmethod
    def parse(cls, word: str) -> Release:
        flavor, _, version = word.partition("@")
        return cls(cast(Flavor, flavor), version_of(version))

    def __str__(self) -> str:
        return f"{self.flavor}@{'.'.join(map(str, self.version))}"

    @property
    def series(self) -> str:
        return f"{self.flavor} {'.'.join(map(str, self.version[:2]))}"


class Ending(NamedTuple):
    """The end of an option, or the warning that a later version will not take it.

    Attributes:
        successors: options that do its work, on servers that have them; NAME=VALUE where only one value does.
        earlier: a version before `since` may have been the first.
        values: the deprecated ones; None: all.
    """

    since: Mapping[str, tuple[int, ...]] = {}
    successors: tuple[str, ...] = ()
    note: str = ""
    earlier: bool = False
    values: re.Pattern[str] | None = None


def _around(
    releases: Iterable[Release], flavor: Flavor, version: tuple[int, ...]
) -> tuple[list[Release], list[Release]]:
    own = sorted(one for one in releases if one.flavor == flavor)
    before = [one for one in own if one.version <= version][-1:]
    return before, [one for one in own if one.version >= version][:1]


@dataclass(frozen=True)
class OptionNames:
    """Releases by option: `ignorers` take it and do nothing with it, `limited` take it with `maximum_`,
    too."""

    releases: Sequence[Release]
    takers: Mapping[str, frozenset[Release]]
    ignorers: Mapping[str, frozenset[Release]] = field(default_factory=dict)
    removals: Mapping[str, Ending] = field(default_factory=dict)
    limited: Mapping[str, frozenset[Release]] = field(default_factory=dict)
    deprecations: Mapping[str, Sequence[Ending]] = field(default_factory=dict)

    def names(self) -> frozenset[str]:
        return frozenset(self.takers) | frozenset(self.ignorers)

    @functools.cached_property
    def _in_order(self) -> Sequence[str]:
        return sorted(self.names())

    def removed(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
        end = self.removals.get(name, Ending()).since.get(flavor)
        return end if end is not None and version >= end else None

    def deprecated(
        self, name: str, flavor: Flavor, version: tuple[int, ...], value: str | None = None
    ) -> Ending | None:
        for one in self.deprecations.get(name, ()):
            holds = one.values is None or (value is not None and one.values.fullmatch(value))
            if holds and one.since.get(flavor, (99,)) <= version:
                return one
        return None

    def deprecation(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> str:
        found = self.deprecated(name, flavor, version)
        if found is None:
            return ""
        since = "" if found.earlier else f" since {'.'.join(map(str, found.since[flavor]))}"
        successors = self.successors(name, flavor, version)
        if successors:
            return f"deprecated{since}, in favor of {', '.join(successors)}"
        return f"deprecated{since}{f'; {found.note}' if found.note else ''}"

    def successors(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[str, ...]:
        deprecated = self.deprecated(name, flavor, version) or Ending()
        found = deprecated.successors or self.removals.get(name, Ending()).successors

        def has(option: str) -> bool:
            name = option.partition("=")[0]
            return name not in self.names() or self.knows(name, flavor, version) is not False

        return tuple(one for one in found if has(one) or has(one.removeprefix("skip_")))

    def note(self, name: str) -> str:
        return self.removals.get(name, Ending()).note

    def ignores(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool:
        """As the listed release before it does; of a server that is older than all listed ones, the first of
        them decides."""
        before, after = _around(self.releases, flavor, version)
        return any(one in self.ignorers.get(name, ()) for one in before or after)

    def limits(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool | None:
        before, after = _around(self.takers.get(name, ()), flavor, version)
        found = {one in self.limited.get(name, ()) for one in (*before, *after)}
        return found.pop() if len(found) == 1 else None

    def of(self, release: Release) -> frozenset[str]:
        return frozenset(name for name, takers in self.takers.items() if release in takers)

    def knows(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> bool | None:
        """A release between two listed ones has what both have; None if they differ or none is listed after
        it."""
        takers = self.takers.get(name, frozenset())
        before, after = _around(self.releases, flavor, version)
        found = {one in takers for one in (*before, *after)}
        if not before or not after:
            return True if found == {True} else None
        if len(found) == 1:
            return found.pop()
        end = self.removals.get(name, Ending()).since.get(flavor)
        return None if end is None or before[0] not in takers else version < end

    def where(self, name: str) -> str:
        takers = self.takers.get(name, frozenset())
        return ", ".join(one.series for one in self.releases if one in takers)

    def near(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> str | None:
        known = [other for other in self.takers if self.knows(other, flavor, version)]
        near = difflib.get_close_matches(name, known, n=3, cutoff=NEAR)
        return next((other for other in near if _misspelled(name, other)), None)

    def starting_with(self, name: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[str, ...]:
        def may_have(option: str) -> bool:
            if option in self.takers and self.knows(option, flavor, version) is not False:
                return True
            return self.ignores(option, flavor, version)

        begun = itertools.takewhile(
            lambda one: one.startswith(name), self._in_order[bisect_left(self._in_order, name) :]
        )
        return tuple(one for one in begun if may_have(one))


def last_before(until: str) -> tuple[int, ...]:
    *first, last = version_of(until or "99")
    return (*first, last - 1, 99)


def _misspelled(name: str, other: str) -> bool:
    """`thread_concurrency` is an option of its own, and no `innodb_thread_concurrency` without its first
    word."""
    words, others = name.split("_"), other.split("_")
    if len(words) != len(others):
        return _alike("".join(words), "".join(others)) >= SAME
    return all(_alike(*pair) >= ALIKE for pair in zip(words, others, strict=True))


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


@functools.cache
def load_option_names() -> OptionNames:
    (_, *listed), *rows = map(str.split, packaged("option_names.txt"))
    releases = [Release.parse(word) for word in listed]

    def marked(marks: str) -> dict[str, frozenset[Release]]:
        found = {
            words[0]: frozenset(one for one, said in zip(releases, words[1], strict=True) if said in marks)
            for words in rows
        }
        return {name: those for name, those in found.items() if those}

    deprecations: dict[str, list[Ending]] = {}
    for told, ending in _endings("deprecated_options.txt"):
        name, equals, values = told.partition("=")
        pattern = re.compile(values, re.IGNORECASE) if equals else None
        deprecations.setdefault(name, []).append(ending._replace(values=pattern))
    return OptionNames(
        releases,
        marked(_TAKEN + _LIMITED),
        marked(_IGNORED),
        dict(_endings("removed_options.txt")),
        marked(_LIMITED),
        deprecations,
    )


def _endings(file: str) -> Iterator[tuple[str, Ending]]:
    for line in packaged(file):
        facts, _, note = line.partition(" ;")
        name, *words = facts.split()
        releases = [Release.parse(word.rstrip(_EARLIER)) for word in words if "@" in word]
        yield (
            name,
            Ending(
                since={one.flavor: one.version for one in releases},
                successors=tuple(word for word in words if "@" not in word and word != "-"),
                note=note.strip(),
                earlier=any(word.endswith(_EARLIER) for word in words),
            ),
        )


_TABLE = "Variables (--variable-name=value)"
_OPTION = re.compile(r"^  (?:-[A-Za-z#?], )?--([a-z][a-zA-Z0-9_.-]+)", re.MULTILINE)
_ROW = re.compile(r"^([a-z][a-zA-Z0-9_.-]*)(?: +(.*))?$", re.MULTILINE)


class HelpText(msgspec.Struct, frozen=True, kw_only=True):
    """`names` as variables spell them, without `skip_`; `values` as the table `Value (after reading options)`
    does."""

    names: frozenset[str]
    values: dict[str, str]


def read_help(text: str) -> HelpText:
    options, _, table = text.partition(_TABLE)
    rows = table.partition("\n---")[2].partition("\n")[2].partition("\n\n")[0]
    return HelpText(
        names=frozenset(canonical(match[1]) for match in _OPTION.finditer(options)),
        values={canonical(match[1]): (match[2] or "").strip() for match in _ROW.finditer(rows)},
    )


Kind = Literal[
    "bare",
    "boolean",
    "unsigned",
    "signed",
    "real",
    "enumeration",
    "set",
    "switches",
    "word",
    "plugin",
    "text",
]
"""Shapes that need a word:

- bare: takes no value;
- boolean: any other text means its one value;
- switches: `NAME=on,NAME=off`;
- word: one of a list, written in full;
- plugin: whether a plugin is loaded.
"""


class OptionShape(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    optional: bool
    values: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> OptionShape:
        kind, _, values = text.partition(":")
        bare = kind.removesuffix("?")
        assert bare in get_args(Kind), f"{text} is no shape"
        named = tuple(values.split(",")) if values else ()
        return cls(kind=cast(Kind, bare), optional=kind.endswith("?"), values=named)

    def __str__(self) -> str:
        return f"{self.kind}{'?' * self.optional}{':' * bool(self.values)}{','.join(self.values)}"


Shapes = Mapping[Release, Mapping[str, OptionShape]]


@functools.cache
def load_option_shapes() -> Shapes:
    (_, *listed), *rows = map(str.split, packaged("option_shapes.txt"))
    shapes: dict[Release, dict[str, OptionShape]] = {Release.parse(word): {} for word in listed}
    for words in rows:
        for mark, release in zip(words[1], shapes, strict=True):
            if mark == "+":
                shapes[release][words[0]] = OptionShape.parse(words[2])
    return shapes


def shape_of(
    name: str, flavor: Flavor, version: tuple[int, ...], shapes: Shapes | None = None
) -> OptionShape | None:
    shapes = load_option_shapes() if shapes is None else shapes
    before, after = _around((one for one in shapes if name in shapes[one]), flavor, version)
    found = {shapes[one][name] for one in (*before, *after)}
    if len(found) == 2 and len({(one.kind, one.optional) for one in found}) == 1:
        values = dict.fromkeys(value for one in sorted(found, key=str) for value in one.values)
        return msgspec.structs.replace(next(iter(found)), values=tuple(values))
    return found.pop() if len(found) == 1 else None


_PREFIX = re.compile(r"(skip|disable|enable|loose)_")
_NUMBERS = {"integer", "size", "float", "unsigned", "signed", "real"}


def setting_of(word: str, value: Value | None = None) -> tuple[str, Value | None]:
    """`skip-log-bin` is log_bin = OFF, and `log_bin` alone is ON. None: the option needs a value."""
    name = canonical(word)
    listed, catalog = load_option_names().names(), load_catalog()
    prefix, rest = "", name
    while rest not in listed and rest not in catalog:
        match = _PREFIX.match(rest)
        if match is None:
            return name, value
        prefix, rest = prefix if match[1] == "loose" else match[1], rest[match.end() :]
    if not prefix and value is not None:
        return rest, value
    kinds = _kinds(rest)
    if prefix:
        on = (prefix == "enable") != (str(value) == "0")
        return rest, int(on) if kinds & _NUMBERS else ("ON" if on else "OFF")
    return rest, "ON" if kinds & {"boolean", "switch"} else None


def settings_of(given: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in (setting_of(*one) for one in given.items()) if value is not None}


def _kinds(name: str) -> set[str]:
    if name in load_catalog():
        entry = load_catalog().setting(name)
        types = {entry.type, *(one.type for one in entry.version)} - {None}
        return {"switch"} if entry.switch else {str(one) for one in types}
    return {of[name].kind for of in load_option_shapes().values() if name in of}


Way = Literal["built-in", "loadable"]

# `--PLUGIN[=ON|OFF|FORCE|FORCE_PLUS_PERMANENT]` loads a plugin or leaves it out. `--verbose --help` lists
# the options of built-in plugins. The options of a loadable plugin exist once a file or a table loads its
# library.


class _Place(NamedTuple):
    way: Way
    flavor: Flavor
    since: str
    until: str


def plugin_named(option: str, flavor: Flavor, version: tuple[int, ...]) -> Way | None:
    """Every such option is taken with `plugin_` in front, too. None if it is no plugin's there."""
    own = (one for one in _places(option) if one.flavor == flavor)
    return next((one.way for one in own if is_within(version, one.since, one.until)), None)


def plugin_ended(option: str, flavor: Flavor, version: tuple[int, ...]) -> tuple[int, ...] | None:
    if plugin_named(option, flavor, version):
        return None
    ends = [version_of(one.until) for one in _places(option) if one.flavor == flavor and one.until]
    return max((end for end in ends if end <= version), default=None)


def plugin_where(option: str) -> str:
    return ", ".join(span_words(*one[1:]) for one in _places(option))


def _places(option: str) -> tuple[_Place, ...]:
    return _plugins().get(option) or _plugins().get(option.removeprefix("plugin_"), ())


@functools.cache
def _plugins() -> dict[str, tuple[_Place, ...]]:
    lists = map(str.split, packaged("plugins.txt"))
    return {name: tuple(map(_place, places)) for name, *places in lists}


def _place(word: str) -> _Place:
    """`built-in:mysql@8.4..9.0`; a flavor alone stands for all of its versions."""
    way, _, where = word.partition(":")
    flavor, _, versions = where.partition("@")
    since, _, until = versions.partition("..")
    return _Place(cast(Way, way), cast(Flavor, flavor), since, until)


XTRADB_CLUSTER, PERCONA, AURORA = "Percona XtraDB Cluster", "Percona Server", "Amazon Aurora"

# Options that neither MySQL nor MariaDB has by itself:
#
# - "List of variables introduced in Percona Server for MySQL" for 8.0 and 5.7
#   (https://docs.percona.com/percona-server/8.0/ps-variables.html);
# - the wsrep and pxc variables of Percona XtraDB Cluster
#   (https://docs.percona.com/percona-xtradb-cluster/8.0/wsrep-system-index.html);
# - "Aurora MySQL configuration parameters" (https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/);
# - "Track database activity with Audit Logs in Azure Database for MySQL"
#   (https://learn.microsoft.com/azure/mysql/).
_PRODUCTS = (
    (XTRADB_CLUSTER, r"wsrep_\w+|pxc_\w+"),
    (
        PERCONA,
        r"binlog_space_limit|csv_mode|encrypt_tmp_files|ft_query_extra_word_chars|"
        r"enforce_storage_engine|expand_fast_index_creation|extra_(max_connections|port)|have_backup_locks|"
        r"have_backup_safe_binlog_info|have_snapshot_cloning|innodb_(cleaner_lsn_age_factor|"
        r"compressed_columns_(threshold|zip_level)|corrupt_table_action|empty_free_list_algorithm|"
        r"encrypt_(online_alter_logs|tables)|kill_idle_transaction|max_bitmap_file_size|max_changed_pages|"
        r"parallel_(dblwr_encrypt|doublewrite_path)|print_lock_wait_timeout_info|show_locks_held|"
        r"background_scrub_data_(un)?compressed|default_encryption_key_id|sys_tablespace_encrypt|temp_tablespace_encrypt|track_changed_pages|"
        r"use_global_flush_log_at_trx_commit)|kill_idle_transaction|"
        r"log_slow_(filter|rate_limit|rate_type|sp_statements|verbosity)|log_warnings_suppress|"
        r"max_(binlog_files|slowlog_files|slowlog_size)|proxy_protocol_networks|"
        r"slow_query_log_(always_write_time|use_global_control)|thread_statistics|userstat|"
        r"utility_user(_password|_privileges|_schema_access)?",
    ),
    (AURORA, r"aurora_\w+|aws_default_\w+_role|innodb_aurora_\w+"),
    ("Amazon RDS", r"rds_\w+"),
    (
        "Azure Database for MySQL",
        r"azure_\w+|audit_log_(enabled|events|include_users|exclude_users)|error_server_log_file",
    ),
    ("Google Cloud SQL", r"cloudsql_\w+"),
)


def product_of(name: str) -> str:
    return next((product for product, names in _PRODUCTS if re.fullmatch(names, name)), "")
