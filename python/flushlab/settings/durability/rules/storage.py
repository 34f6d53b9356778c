"""storage: data in memory is gone with the operating system; the disk of an unseen host is not known."""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.durability.rule import Effect, Rule, Situation, on_crashes


def _find(situation: Situation) -> Iterator[Effect]:
    storage = situation.storage
    if not storage.visible:
        text = "flushlab cannot see the server's host, so whether its disk honors flushes is unknown"
        yield Effect(on="power_loss", level="unknown", text=text, remark=True)
    elif storage.in_memory:
        yield from on_crashes("at_risk", "everything is lost: the data directory is in memory", whole=True)


STORAGE = Rule(
    name="storage",
    source="https://www.kernel.org/doc/html/latest/filesystems/tmpfs.html",
    find=_find,
)
