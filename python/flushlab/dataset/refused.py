"""Refused: what a server says to a statement of a dump, with the way out.

Sits in `dataset`; pure.
"""

from __future__ import annotations

import re

from flushlab.dataset.survey import Survey
from flushlab.errors import DumpRefused
from flushlab.record import ServerIdentity

_QUOTED = re.compile(r"'([^']*)'")
_HINTS: dict[int, str] = {
    1044: "the account may not do this in a sandbox: remove the statement from the dump",
    1227: "the account may not do this in a sandbox: remove the statement from the dump",
    1142: "the account may not do this in a sandbox: remove the statement from the dump",
    1046: "the dump does not say which database: make it with mysqldump --databases NAME",
    1049: "the dump uses a database that it does not create: make it with mysqldump --databases NAME",
    1153: "a statement is larger than 1 GiB: make the dump with --max-allowed-packet=64M",
    2006: "a statement is larger than 1 GiB: make the dump with --max-allowed-packet=64M",
    1449: "an account that a view, routine or trigger runs as is missing: make the dump with --skip-definer"
    " (mysqlpump) or remove DEFINER=… from it",
    1114: "the disk is full, or a table in memory is: choose another place with --data-root",
    1021: "the disk is full: choose another place with --data-root",
    1286: "that storage engine is not in this build: change ENGINE in the dump, or choose another --server",
    1071: "its row format has shorter keys: give the dump's own server with --server",
    1118: "its row format has shorter rows: give the dump's own server with --server",
    3105: "mariadb-dump writes values of MySQL's generated columns: make the dump with MySQL's own mysqldump",
    1062: "rows are there twice: the dump was not consistent (use --single-transaction), or is two in one",
}
_SYNTAX = 1064  # ER_PARSE_ERROR
_OTHER_SERVER = {_SYNTAX, 1101, 1115, 1193, 1231, 1273, 1305, 1911, 3135, 3988, 4161}
"""Syntax, types, character sets, variables and functions that another version or flavor has."""


def refused(said: str, errno: int, survey: Survey, identity: ServerIdentity) -> DumpRefused:
    """The error for a statement that the server did not take; `said`: its place, and the server's words."""
    return DumpRefused(said, hint=_hint(said, errno, survey, identity))


def _hint(said: str, errno: int, survey: Survey, identity: ServerIdentity) -> str:
    if errno not in _OTHER_SERVER:
        return _HINTS.get(errno, "fix the dump, or load it on the server that it comes from")
    if errno == _SYNTAX and survey.cut_off:
        return "it does not end with '-- Dump completed': if it was cut off, make it again or copy all of it"
    flavor = survey.origin.partition(" ")[0].lower()
    here = "MariaDB" if identity.flavor == "mariadb" else "MySQL"
    version = ".".join(map(str, identity.version[:2]))
    origin = f"the dump is from {survey.origin}, this is {here} {version}" if survey.origin else ""
    way = f"try --server {flavor}" if flavor and flavor != identity.flavor else "try a newer --server"
    if errno in (1273, 1115):
        wanted = _QUOTED.findall(said)
        other = "utf8mb4_unicode_520_ci" if errno == 1273 else "utf8mb4"
        if wanted:
            way += f", or replace it in the dump: sed 's/{wanted[-1]}/{other}/g'"
    return f"{origin}; {way}" if origin else f"another flavor or version wrote this: {way}"
