"""Rights: privileges that the account on the user's own server lacks for a command.

Server layer. Found by attempts, since only the server knows what roles, wildcards and partial revokes come
to. A server checks the privilege first; whatever is tried then fails for another reason, or is only explained
or prepared, so that nothing changes.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from flushlab.errors import UsageError
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import replica_statement
from flushlab.server.remote.journal import ANSWER_S
from flushlab.server.remote.server import RemoteServer
from flushlab.server.sql import Query, account_of, quoted
from flushlab.settings.catalog import PROVIDER_OPTIONS
from flushlab.settings.configuration import Configuration

_DENIED = {1044, 1142, 1143, 1227, 1370}
"""ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR,
ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_PROCACCESS_DENIED_ERROR."""
_ATTEMPTS = {
    "SELECT": "EXPLAIN SELECT 1 FROM {table}",
    "INSERT": "EXPLAIN INSERT INTO {table} VALUES ()",
    "UPDATE": "EXPLAIN UPDATE {table} SET {missing} = 1",
    "DELETE": "EXPLAIN DELETE FROM {table}",
    "CREATE": "PREPARE flushlab FROM 'CREATE TABLE {absent} (a INT)'",
}
_ALONE = {
    "DROP": "DROP TABLE {absent}",
    "INDEX": "CREATE INDEX a ON {absent} (a)",
    "ALTER": "ALTER TABLE {absent} COMMENT = ''",
}
"""Statements that a node of Galera would send to the others before it finds that there is no such table."""
_SUPER = "SUPER"
_NAMED = re.compile(r"[A-Z]+(?:[_ ][A-Z]+)*")
_COMMANDS = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|EXECUTE)\b")


class Needs(NamedTuple):
    process: bool = False
    replication: bool = False
    settings: Sequence[str] = ()
    database: str = ""
    privileges: Iterable[str] = ()
    table: str = ""
    statements: Sequence[str] = ()


def require_rights(nodes: Sequence[RemoteServer], needs: Needs) -> None:
    everywhere, inside = set[str](), set[str]()
    for node in nodes:
        with RemoteServer(node.address) as own:  # what is used or prepared there ends with it
            query = partial(own.query, answer_s=ANSWER_S)
            everywhere |= _global(own, query, needs)
            inside |= _in_database(query, needs)
    if not everywhere and not inside:
        return
    lacks, grants = list[str](), list[str]()
    account = account_of(str(nodes[0].query("SELECT CURRENT_USER()")[0][0]))
    if names := ", ".join(sorted(everywhere)):
        lacks.append(names)
        grants.append(f"GRANT {names} ON *.* TO {account}")
    if names := ", ".join(sorted(inside)):
        lacks.append(f"{names} on {needs.database}.*")
        grants.append(f"GRANT {names} ON {_pattern(nodes[0].query, needs.database)}.* TO {account}")
    raise UsageError(f"the account {account} lacks {' and '.join(lacks)}", hint="; ".join(grants))


def _global(node: RemoteServer, query: Query, needs: Needs) -> set[str]:
    found = set[str]()
    if needs.process and _refusal(query, "SHOW ENGINE INNODB STATUS"):
        found.add("PROCESS")
    attempts = [replica_statement(node.identity)] if needs.replication else []
    for name in needs.settings:
        here = Configuration({}, node.identity).here(name)
        variable = (PROVIDER_OPTIONS if here.part else here.variable) if here else name
        attempts.append(f"SET GLOBAL {variable} = (1, 2)")
    takes = [
        [one for one in _NAMED.findall(text) if len(one) > 1] or [_SUPER]
        for text in (_refusal(query, attempt) for attempt in attempts)
        if text
    ]
    if any(one == [_SUPER] for one in takes):  # which does for the others that take it
        takes = [[_SUPER] if _SUPER in one else one for one in takes]
    return found | {next((name for name in one if name != _SUPER), _SUPER) for one in takes}


def _in_database(query: Query, needs: Needs) -> set[str]:
    if not needs.database:
        return set()
    absent = quoted(needs.database, f"flushlab_{secrets.token_hex(8)}")
    table = quoted(needs.database, needs.table) if needs.table else absent
    is_node = any(str(value) == "ON" for _, value in query("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_on'"))
    attempts = _ATTEMPTS if is_node else {**_ATTEMPTS, **_ALONE}
    words = {"table": table, "absent": absent, "missing": quoted(f"flushlab_{secrets.token_hex(8)}")}
    found = {
        name
        for name in needs.privileges
        if name in attempts and _refusal(query, attempts[name].format(**words))
    }
    return found | {*_lacking_for(query, needs)}


def _lacking_for(query: Query, needs: Needs) -> Iterator[str]:
    if not needs.statements:
        return
    refused = _refusal(query, f"USE {quoted(needs.database)}")
    for sql in needs.statements:
        text = refused or _refusal(query, "PREPARE flushlab FROM %s", sql)
        if text and (named := _COMMANDS.search(sql if refused else text)):
            yield named[0]


def _refusal(query: Query, sql: str, *args: str) -> str:
    try:
        query(sql, args)
    except StatementFailed as error:
        return error.text if error.errno in _DENIED else ""
    return ""


def _pattern(query: Query, database: str) -> str:
    literally = query("SHOW GLOBAL VARIABLES WHERE Variable_name = 'partial_revokes' AND Value = 'ON'")
    return quoted(database if literally else re.sub(r"([\\_%])", r"\\\1", database))
