"""Rule: one reason why a server keeps or loses something; Situation: what rules look at. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from flushlab.record import Launch, ServerIdentity, Storage, Value
from flushlab.record.server import Flavor
from flushlab.settings.configuration import Configuration
from flushlab.settings.durability.guarantee import Failure, Level

Kept = Failure | Literal["binlog"]
"""What an effect speaks of: a failure, or the binary log's own content after a crash of the system."""

CRASHES: tuple[Failure, ...] = ("os_crash", "power_loss")


class Situation(Configuration):
    """A configuration with its storage and launch.

    Args:
        settings: of the server; anything left out counts as this version's default.
        launch: facts that no variable shows.

    Raises:
        ValueOutOfRange: a setting has a value that this version does not allow.
    """

    def __init__(
        self, settings: Mapping[str, Value], identity: ServerIdentity, storage: Storage, launch: Launch
    ) -> None:
        super().__init__(settings, identity)
        self.storage = storage
        self.launch = launch

    @property
    def has_binlog(self) -> bool:
        """The binary log is on."""
        return self.value("log_bin") == "ON"

    @property
    def binlog_in_innodb(self) -> bool:
        """The binary log lives inside InnoDB (MariaDB 12.3 and later)."""
        return self.has_binlog and self.value("binlog_storage_engine") == "innodb"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one rule for one failure.

    Attributes:
        on: the failure.
        level: of the guarantee.
        text: in words.
        window_s: in seconds, for `window` only.
        remark: the text stands behind whatever else is said; the level does not count.
        whole: everything is lost, so that no other loss is worth a word.
    """

    on: Kept
    level: Level
    text: str
    window_s: float | None = None
    remark: bool = False
    whole: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One reason, with where it holds and where it comes from.

    Attributes:
        name: stable; the catalog's `durability` keys name it.
        source: manual page, worklog, bug or measurement.
        find: its effects on a situation; empty where it has nothing to say.
        flavor, since: where it holds; None for all.
    """

    name: str
    source: str
    find: Callable[[Situation], Iterable[Effect]]
    flavor: Flavor | None = None
    since: tuple[int, ...] | None = None

    def holds(self, identity: ServerIdentity) -> bool:
        """Whether it speaks of that server."""
        return self.flavor in (None, identity.flavor) and identity.version >= (self.since or ())


def on_crashes(
    level: Level, text: str, window_s: float | None = None, *, whole: bool = False
) -> list[Effect]:
    """The same effect on a crash of the operating system and on a loss of power."""
    return [Effect(on=failure, level=level, text=text, window_s=window_s, whole=whole) for failure in CRASHES]
