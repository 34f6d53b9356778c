"""Account: what the account of a diagnosis may see, and the smallest grants for what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from flushlab.diagnosis.sampling import opened
from flushlab.diagnosis.window import sees_others
from flushlab.record import ServerIdentity
from flushlab.record.running import WatchedServer
from flushlab.server.identifier import account_of
from flushlab.telemetry.live import questions

_SEEN = {
    questions.STATUS: "counters",
    questions.VARIABLES: "variables",
    questions.STATES: "connections at work",
    questions.TRANSACTIONS: "open transactions",
    questions.FILES: "syncs of each log",
    questions.MONITOR: "age of the checkpoint",
    questions.ORIGINS: "sources of settings",
    questions.HISTORY: "history of row versions",
    questions.ERRORS: "errors of statements",
}
_GRANTS = {
    questions.PROCESS: "GRANT PROCESS ON *.* TO {account};",
    questions.PERFORMANCE_SCHEMA: "GRANT SELECT ON performance_schema.* TO {account};",
}


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account on a server.

    Attributes:
        server: of the account.
        name: as GRANT takes it.
        sees: in words.
        lacks: in words.
        grants: statements that give what it lacks.
    """

    server: ServerIdentity
    name: str
    sees: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


def check_account(reach: WatchedServer, progress: Callable[[str], None]) -> Account:
    """Asks each question of a diagnosis once.

    Args:
        reach: the server.
        progress: takes a line at a time.

    Raises:
        ServerError: the server does not answer, or refuses the account.
    """
    with opened(reach, progress) as session:
        session.ask_what_is_due(None, lambda: False)
        name, seen = account_of(session.account()), session.seen
        assert seen is not None
    lacks = {one for one in session.names if one in seen.failed}
    if not sees_others(seen):
        lacks.add(questions.STATES)
    return Account(
        server=seen.identity,
        name=name,
        sees=tuple(words for one, words in _SEEN.items() if one in session.names and one not in lacks),
        lacks=tuple(words for one, words in _SEEN.items() if one in lacks),
        grants=tuple(text.format(account=name) for one, text in _GRANTS.items() if one in seen.missing),
    )
