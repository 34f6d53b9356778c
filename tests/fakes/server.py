"""FakeServer: a server that exists only in memory, for tests of the layers above.

Implements `Server` and passes its tests in `tests/contract`. Its behaviour is scripted: round a
value, refuse one, die.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flushlab.errors import ServerDied, ServerError
from flushlab.record import Endpoint, Launch, ServerIdentity, Storage, Value
from flushlab.server import sql
from flushlab.server.control import StatementFailed
from flushlab.server.protocol import Applied, Refusal, SingleServer
from flushlab.settings.admission import require_admitted
from flushlab.settings.configuration import Configuration, literal

DEFAULTS: Mapping[str, Value] = {
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_buffer_pool_size": 128 << 20,
    "innodb_io_capacity": 200,
    "innodb_doublewrite": "ON",
    "sync_binlog": 0,
    "log_bin": "OFF",
}

Answer = Sequence[tuple[Any, ...]] | Callable[[], Sequence[tuple[Any, ...]]]


_NOW_S = 1_800_000_000
"""Its clock, which stands still."""


class FakeServer(SingleServer):
    """A scripted server.

    Args:
        identity: of the server to imitate.
        values: all system variables.
        answers: rows by exact statement; a callable is called each time.
        rounds: variables that change the value they are given.
        refuses: variables that it does not accept, with the reason.
        storage, launch: facts that the server reports.
    """

    pid: int | None = None

    def __init__(
        self,
        *,
        identity: ServerIdentity | None = None,
        values: Mapping[str, Value] = DEFAULTS,
        answers: Mapping[str, Answer] | None = None,
        rounds: Mapping[str, Callable[[Value], Value]] | None = None,
        refuses: Mapping[str, str] | None = None,
        storage: Storage | None = None,
        launch: Launch | None = None,
    ) -> None:
        self.identity = identity or ServerIdentity(
            flavor="mariadb", version=(10, 11, 19), version_text="10.11.19-MariaDB", build_id="fake"
        )
        self._values = dict(values)
        self._answers = dict(answers or {})
        self._rounds = dict(rounds or {})
        self._refuses = dict(refuses or {})
        self.storage = storage or Storage(filesystem="ext4", volatile_cache=False)
        self.launch = launch or Launch()
        self.endpoint = Endpoint(user="flushlab", password="fake", socket="/nonexistent/mysqld.sock")
        self._alive = True
        self._log = "ready for connections"
        self.started_s = _NOW_S - 1000
        """When it started, by its clock."""
        self.made: dict[str, Value | None] = {}
        self.started_before_s: float | None = None
        self.when_silent: Callable[[], object] = lambda: None
        """These three: as of `RemoteServer`."""
        self.statements: list[str] = []
        """Every statement that it was given, in order."""

    def alive(self) -> bool:
        """True until it was stopped or has died."""
        return self._alive

    def die(self, last_words: str) -> None:
        """From now on it is gone; `last_words` end its log."""
        self._alive = False
        self._log += f"\n{last_words}"

    def query(
        self, sql: str, args: Sequence[Any] = (), *, answer_s: float | None = None
    ) -> list[tuple[Any, ...]]:
        """What was scripted for this statement; its variables and its version it knows by itself."""
        if not self._alive:
            raise ServerDied(f"the fake server is gone; its log ends with:\n{self.log_tail()}")
        self.statements.append(sql)
        if sql in self._answers:
            answer = self._answers[sql]
            return list(answer() if callable(answer) else answer)
        if sql == "SHOW GLOBAL STATUS LIKE 'Uptime'":
            return [("Uptime", str(_NOW_S - self.started_s))]
        if sql == "SELECT UNIX_TIMESTAMP()":
            return [(_NOW_S,)]
        if sql.startswith("SHOW GLOBAL STATUS LIKE "):  # a status that it does not have
            return []
        if sql == "SELECT VERSION()":
            return [(self.identity.version_text,)]
        if sql.startswith("SHOW GLOBAL VARIABLES WHERE Variable_name IN"):
            return [(name, str(self._values[name])) for name in args if name in self._values]
        if sql.startswith("SET GLOBAL "):
            return self._set(sql.split()[2], args[0])
        if sql.upper().startswith("SELECT 1"):
            return [(1,)]
        raise ServerError(f"the server refused {sql!r}: not scripted (error 1064)")

    def _set(self, name: str, value: Value) -> list[tuple[Any, ...]]:
        if name not in self._values or (name in self._refuses and value != self._values[name]):
            raise StatementFailed(
                1231, self._refuses.get(name, f"Unknown system variable '{name}'"), f"SET GLOBAL {name}"
            )
        self._values[name] = self._rounds.get(name, _unchanged)(value)
        return []

    def read_back(self, names: Iterable[str]) -> dict[str, Value]:
        """Its variables, typed as the catalog types them."""
        return sql.read_variables(self.query, self.identity, names)

    def apply(self, settings: Mapping[str, Value]) -> Applied:
        """Takes settings, unless scripted otherwise."""
        if not self._alive:
            raise ServerDied(f"the fake server is gone; its log ends with:\n{self.log_tail()}")
        asked = require_admitted(settings)
        configuration = Configuration(asked, self.identity)
        refused = []
        restarted = False
        for name, value in asked.items():
            if name in self._refuses:
                refused.append(Refusal(name=name, value=value, reason=self._refuses[name]))
            elif name not in self._values:
                reason = f"Unknown system variable '{name}'"
                refused.append(Refusal(name=name, value=value, reason=reason))
            else:
                here = configuration.here(name)
                changed = not configuration.same(name, value, self._values[name])
                restarted |= changed and here is not None and not here.dynamic
                parsed = literal(value, here)
                self._values[name] = self._rounds.get(name, _unchanged)(parsed)
        accepted = {name: value for name, value in asked.items() if name not in {one.name for one in refused}}
        got = self.read_back(accepted)
        return Applied(
            settings=got,
            refused=tuple(refused),
            restarted=restarted,
            warnings=sql.changed_values(self.identity, accepted, got),
        )

    def log_tail(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self._log.splitlines()[-lines:])

    def stop(self) -> None:
        """Ends it; does nothing the second time."""
        self._alive = False


def _unchanged(value: Value) -> Value:
    return value
