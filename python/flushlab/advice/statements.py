"""SET statements to a change and back, and the option file that takes it back. Pure.

A setting of the user's own file goes back to its value there; one that the file does not have, to what the
server had without it: its line is removed, and a running server is given that value. Settings that need a
restart become comments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jinja2

from flushlab.record import ServerIdentity, Value
from flushlab.settings.catalog import SettingHere, load_catalog
from flushlab.settings.configuration import LOST_AT_RESTART, Configuration
from flushlab.settings.optionfile import render


def statements_file(settings: Mapping[str, Value], identity: ServerIdentity) -> str:
    """Where it persists, the file first prints what the user had persisted, as statements:
    `rollback_statements` makes the server forget that."""
    lines = [*lost_at_restart(settings, identity), *set_statements(settings, identity)]
    return "\n".join([*(_had_persisted(settings, identity) if identity.persists else ()), *lines]) + "\n"


def set_statements(settings: Mapping[str, Value], identity: ServerIdentity) -> list[str]:
    """SET PERSIST on MySQL 8 and later survives a restart; SET GLOBAL elsewhere does not: the option file
    is needed too. Settings that need a restart: SET PERSIST_ONLY where there is one, else a comment."""
    catalog = load_catalog()
    lines: list[str] = []
    for name, value in settings.items():
        lines += _lines(catalog.require(name, identity.flavor, identity.version), value, identity.persists)
    return lines


def lost_at_restart(settings: Mapping[str, Value], identity: ServerIdentity) -> list[str]:
    lines = set_statements(settings, identity)
    if not any(line.startswith("SET GLOBAL") for line in lines):
        return []
    return [f"-- {LOST_AT_RESTART}: add my.cnf to the option file too."]


def _had_persisted(settings: Mapping[str, Value], identity: ServerIdentity) -> list[str]:
    """The advised value is left out: a second run prints nothing."""
    catalog = load_catalog()
    queries = []
    for name, value in settings.items():
        here = catalog.require(name, identity.flavor, identity.version)
        parsed = here.parse(value)
        text, advised = (
            ("QUOTE(variable_value)", f"'{parsed}'")
            if isinstance(parsed, str)
            else ("variable_value", str(parsed))
        )
        queries.append(
            f"SELECT CONCAT('{_persist(here)} {here.variable} = ', {text}, ';') AS had_persisted"
            f" FROM performance_schema.persisted_variables"
            f" WHERE variable_name = '{here.variable}' AND variable_value <> {advised}"
        )
    return [
        "-- Prints what you have persisted of these settings. Keep it: it belongs behind rollback.sql.",
        "\nUNION ALL ".join(queries) + ";",
        "",
    ]


def _persist(here: SettingHere) -> str:
    return "SET PERSIST" if here.dynamic else "SET PERSIST_ONLY"


def _lines(here: SettingHere, value: Value, persistent: bool) -> list[str]:
    if here.part and here.dynamic:
        by_plugin = f"-- where the plugin wsrep_provider is on: SET GLOBAL {here.name} = {here.parse(value)};"
        return [f"SET GLOBAL {here.variable} = {here.sql(value)};", by_plugin]
    if here.dynamic:
        restart = "  -- may take a restart: verify.sql shows whether it is in force"
        return [
            f"{_persist(here) if persistent else 'SET GLOBAL'} {here.variable} = {here.sql(value)};"
            f"{restart if here.partly_dynamic else ''}"
        ]
    if persistent and not here.entry.switch:
        return [f"{_persist(here)} {here.variable} = {here.sql(value)};  -- needs a restart"]
    return [f"-- {here.option(value)}: needs a restart; set it in the option file"]


UNSEEN = "What your option file had, flushlab has not seen: these values are of the measured server."
_PERSISTED = (
    "SET PERSIST wins over an option file: RESET PERSIST what it has stored; settings.sql lists that."
)
"""For a server that persists settings, where those could not be read."""


def persisted_comments(
    changes: Mapping[str, Value], persisted: Mapping[str, str] | None, identity: ServerIdentity
) -> list[str]:
    if not identity.persists:
        return []
    if persisted is None:
        return [_PERSISTED]
    known = [Configuration({}, identity).here(name) for name in changes]
    found = [here for here in known if here and here.variable in persisted]
    differ = [here for here in found if not here.same(changes[here.name], persisted[here.variable])]
    return [
        f"SET PERSIST wins over this file: {here.variable} = {persisted[here.variable]} is stored."
        f" RESET PERSIST {here.variable}; or run settings.sql."
        for here in differ
    ]


def rollback_file(
    changes: Mapping[str, Value],
    own: Mapping[str, Value],
    before: Mapping[str, Value],
    identity: ServerIdentity,
    *,
    is_seen: bool = True,
    comments: Sequence[str] = (),
) -> str:
    """`before`: what the server reported without the changes; `is_seen`: flushlab has read the user's
    option file; else `own` holds the values that the server had."""
    catalog = load_catalog()
    back = {name: own[name] for name in changes if name in own}
    header = [
        *comments,
        "Puts back what was there. Use it in place of the advised lines and restart the server.",
        *([] if is_seen else [UNSEEN]),
    ]
    for name in (name for name in changes if name not in own):
        here = catalog.here(name, identity.flavor, identity.version) if name in catalog else None
        value = before.get(name)
        had, line = "the server has its own default", "its line"
        if here is not None and here.entry.switch:
            line = f"the line {here.option(changes[name])}"
        if value is not None:
            spelled = value if here is None else here.render(value)
            had = f"the server then has {spelled} again"
        why = f"{name} was not in your option file" if is_seen else f"The earlier {name} is not known"
        header.append(f"{why}: remove {line} ({had}).")
    return render(back, identity, header=header)


def rollback_statements(
    changes: Mapping[str, Value],
    own: Mapping[str, Value],
    before: Mapping[str, Value],
    identity: ServerIdentity,
) -> list[str]:
    """A server that persists settings forgets the advised ones; what its user had persisted is set after
    these."""
    catalog, lines = load_catalog(), list[str]()
    for name in changes:
        here = catalog.require(name, identity.flavor, identity.version)
        if identity.persists:
            lines.append(f"RESET PERSIST IF EXISTS {here.variable};")
        lines.append(_statement(here, own.get(name, before.get(name)), in_file=name in own))
    return lines


def _statement(here: SettingHere, value: Value | None, *, in_file: bool) -> str:
    if here.dynamic:
        default = here.sql(here.default) if here.part else "DEFAULT"
        return f"SET GLOBAL {here.variable} = {default if value is None else here.sql(value)};"
    line = here.option(value) if in_file and value is not None else f"remove {here.name}"
    return f"-- {line}: needs a restart; put rollback.cnf in place of the advised lines"


def template(
    name: str, *, package: str = "flushlab.advice", escape: bool = False, **filters: Callable[..., str]
) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


SECONDS = 60
"""Seconds between the two readings."""

COUNTERS = (
    *("Questions", "Handler_commit", "Handler_write", "Handler_update", "Handler_delete"),
    *("Innodb_data_fsyncs", "Innodb_os_log_fsyncs", "Innodb_os_log_written"),
    *("Innodb_log_waits", "Innodb_buffer_pool_wait_free", "Binlog_commits", "Binlog_group_commits"),
)
"""Of SHOW GLOBAL STATUS; those that a version lacks do not appear, and MySQL keeps Com_commit elsewhere."""

_FILES = {
    "redo_log_syncs": "wait/io/file/innodb/innodb_log_file",
    "binary_log_syncs": "wait/io/file/sql/binlog",
}
"""Counters and their rows in file_summary_by_event_name, whose COUNT_MISC has syncs and, far rarer, opens and
closes (https://dev.mysql.com/doc/refman/8.0/en/performance-schema-file-summary-tables.html)."""

_BY_DIGEST = "performance_schema.events_statements_summary_by_digest"
_STATEMENTS = (
    ("COMMIT", _BY_DIGEST, "digest_text REGEXP '^COMMIT( |$)'"),
    ("INSERT, UPDATE, DELETE, REPLACE", _BY_DIGEST, "digest_text REGEXP '^(INSERT|UPDATE|DELETE|REPLACE) '"),
    (
        "prepared, of any kind",
        "performance_schema.events_statements_summary_global_by_event_name",
        "event_name = 'statement/com/Execute'",
    ),
)
"""Statements, the table that counts them, and its rows. Executions over the binary protocol are in no digest
(seen on MySQL 5.7.22, 8.0.15 and 9.7.4)."""

_HISTOGRAMS_SINCE = (8, 0, 3)
"""MySQL with performance_schema.events_statements_histogram_by_digest
(https://dev.mysql.com/doc/refman/8.0/en/performance-schema-statement-histogram-summary-tables.html)."""


def verification(changes: Mapping[str, Value], identity: ServerIdentity) -> str:
    settings = [
        (load_catalog().require(name, identity.flavor, identity.version), value)
        for name, value in changes.items()
    ]
    is_mysql = identity.flavor == "mysql"
    return template("verify.sql.j2").render(
        changes=[(here, _printed(here, value)) for here, value in settings],
        server=identity,
        schema="performance_schema" if is_mysql else "information_schema",
        has_histograms=is_mysql and identity.version >= _HISTOGRAMS_SINCE,
        seconds=SECONDS,
        counters=COUNTERS,
        logs=_FILES,
        statements=_STATEMENTS,
        percentiles=(50, 95, 99),
    )


def _printed(here: SettingHere, value: Value) -> str:
    parsed = here.parse(value)
    return f"{parsed:f}".rstrip("0").rstrip(".") if isinstance(parsed, float) else str(parsed)
