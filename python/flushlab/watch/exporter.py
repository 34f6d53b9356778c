"""Exporter: `/metrics`, made of what is known already.

Promises: a scrape asks the watched server nothing; of two at once the second waits for the first's answer and
takes it; a family exists only for as long as somebody yields it, so that no label of a server that is gone
stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from flushlab.record.running import Running
from flushlab.watch import mysqld, own
from flushlab.watch.asker import Known
from flushlab.watch.questions import VARIABLES
from flushlab.watch.seen import Seen

_END = b"# EOF\n"


class Exporter:
    """Answers scrapes."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._variables: tuple[object, str, bytes] = (None, "", b"")
        self._last: tuple[object, object, str, bytes] = (None, None, "", b"")

    def exposition(
        self, known: Known, running: Running | None, own_cpu_s: float, accept: str
    ) -> tuple[str, bytes]:
        """Content-Type and text, in the format that a scraper asks for."""
        encode, kind = choose_encoder(accept)
        with self._one_at_a_time:
            told_known, told_running, told_kind, text = self._last
            if told_known is not known or told_running is not running or told_kind != kind or not text:
                text = self._text(known, running, own_cpu_s, encode, kind)
                self._last = known, running, kind, text
            return kind, text

    def _text(
        self,
        known: Known,
        running: Running | None,
        own_cpu_s: float,
        encode: Callable[[CollectorRegistry], bytes],
        kind: str,
    ) -> bytes:
        seen = known.seen if known.up else None

        def families() -> Iterator[Metric]:
            yield from mysqld.collectors(seen, up=known.up)
            yield from own.watching(own_cpu_s)
            if running is not None:
                yield from own.running(running)
            if seen is not None:
                yield from own.server(seen)
                for name, part in mysqld.PARTS.items():
                    if name != VARIABLES:
                        yield from part(seen)

        text = _encoded(lambda: (family for family in families() if family.samples), encode)
        return text.removesuffix(_END) + self._of_variables(seen, encode, kind) if seen else text

    def _of_variables(self, seen: Seen, encode: Callable[[CollectorRegistry], bytes], kind: str) -> bytes:
        """They are half of all and seldom change: made once for each time that they were asked for."""
        told, told_kind, text = self._variables
        if told is not seen.variables or told_kind != kind:
            text = _encoded(lambda: mysqld.variables(seen), encode)
            self._variables = seen.variables, kind, text
        return text


class _Yielding(Collector):
    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """What there is now."""
        return self._families()

    def describe(self) -> list[Metric]:
        """Nothing: what there is depends on the server."""
        return []


def _encoded(families: Callable[[], Iterator[Metric]], encode: Callable[[CollectorRegistry], bytes]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Yielding(families))
    return encode(registry)
