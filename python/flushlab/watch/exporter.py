"""Exporter: `/metrics`, made of what is known already.

Promises:

- A scrape asks the watched server nothing.
- Of two scrapes at once, the second waits for the first's answer and takes it.
- A family exists only for as long as somebody yields it, so no label of a server that is gone stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric, Sample
from prometheus_client.exposition import choose_encoder

from flushlab import atomic
from flushlab.errors import NotWritable, UsageError
from flushlab.record.running import Running
from flushlab.telemetry.live.questions import VARIABLES
from flushlab.watch import metrics
from flushlab.watch.poller import PollResult

_END = b"# EOF\n"
Encode = Callable[["_Registry"], bytes]


class Exporter:
    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._last: tuple[object, object, int, str, bytes] = (None, None, 0, "", b"")
        self._variables: tuple[object, list[Metric]] = (None, [])
        self._spelled: dict[tuple[str, str], tuple[list[Sample], bytes]] = {}

    def exposition(
        self, known: PollResult, running: Running | None, own_cpu_s: float, accept: str, failures: int = 0
    ) -> tuple[str, bytes]:
        encode, kind = choose_encoder(accept)
        with self._one_at_a_time:
            last_known, last_running, *last, text = self._last
            if last_known is not known or last_running is not running or last != [failures, kind] or not text:
                families = (*metrics.own_metrics(own_cpu_s, failures), *self._families(known, running))
                text = b"".join(self._text(family, encode, kind) for family in families if family.samples)
                text += _END if "openmetrics" in kind else b""
                self._last = known, running, failures, kind, text
            return kind, text

    def _text(self, family: Metric, encode: Encode, kind: str) -> bytes:
        """Few of hundreds change in a second: what has not is not spelled out again."""
        samples, text = self._spelled.get((kind, family.name), (None, b""))
        if samples != family.samples:
            text = encode(_Registry([family])).removesuffix(_END)
            self._spelled[kind, family.name] = family.samples, text
        return text

    def _families(self, known: PollResult, running: Running | None) -> Iterator[Metric]:
        seen = known.seen if known.up else None
        if known.up or known.since is not None or known.failed:  # without a server to watch, none is down
            yield from metrics.collectors(seen, up=known.up)
        if running is not None:
            yield from metrics.running(running)
        if seen is None:
            return
        yield from metrics.server(seen)
        if known.judged is not None:
            yield from metrics.diagnosed(known.judged)
        for name, part in metrics.PARTS.items():
            if name != VARIABLES:
                yield from part(seen)
        # They are half of all: looked at once for each time that they were asked for.
        if self._variables[0] is not seen.variables:
            self._variables = seen.variables, [*metrics.variables(seen)]
        yield from self._variables[1]


class _Registry(CollectorRegistry):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


_FILES = Path(__file__).parent / "files"
GRAFANA, PROMETHEUS = _FILES / "grafana", _FILES / "prometheus"


def copy(files: Path, folder: Path) -> list[Path]:
    """Over no file that differs, as it may have been edited: raises UsageError before anything is written.
    Raises NotWritable if the folder cannot be written."""
    texts = {folder / path.relative_to(files): path.read_bytes() for path in sorted(files.rglob("*.*"))}
    try:
        for path, text in texts.items():
            if path.is_symlink() or (path.exists() and path.read_bytes() != text):
                raise UsageError(
                    f"{path} exists and is not what would be written",
                    hint="name another folder, or move it away",
                )
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(path, text)
    except OSError as error:
        raise NotWritable(
            f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
    return list(texts)
