"""`flushlab watch`: the writes while they happen.

`--terminal` shows the essentials of a second as a table; without a terminal, a line each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from flushlab.cli.consoles import stdout
from flushlab.cli.output import print_warning, say
from flushlab.errors import UsageError
from flushlab.spec import Option
from flushlab.spec.build import build
from flushlab.spec.commands import WatchCommandSpec
from flushlab.units import format_seconds, format_size

if TYPE_CHECKING:
    from flushlab.watch import Watch
    from flushlab.watch.sampler import Sample

SPEC = WatchCommandSpec
RECORDING = ("record", "seconds")
WIDTH = 79
CONNECTIONS_SHOWN = 6
_WAIT_S = 5.0


def watch(
    given: Mapping[str, Any],
    terminal: Annotated[bool, Option("Show the essentials here; serve no page.")] = False,
    print_grafana: Annotated[
        Path | None,
        Option("Write dashboards and provisioning files for Grafana; watch nothing.", metavar="DIR"),
    ] = None,
    print_prometheus: Annotated[
        Path | None,
        Option("Write a scrape file and alerts for Prometheus; watch nothing.", metavar="DIR"),
    ] = None,
) -> None:
    """Watch writes live: in a browser, a terminal or Prometheus.

    \b
    Examples:
      flushlab watch
      flushlab watch --server sandbox:demo --terminal
      flushlab watch --defaults-file ~/.my.cnf
      flushlab watch --defaults-file ~/.my.cnf --record shop.load --seconds 300

    Without a server it shows what flushlab runs on this machine: tune,
    series, compare, bench, fill, crash and test, started before or after it.
    """
    spec = build(WatchCommandSpec, given)
    if print_grafana or print_prometheus:
        if given or terminal:
            name = next(iter(given), "terminal").replace("_", "-")
            raise UsageError(
                f"--{name} has no effect with --print-grafana or --print-prometheus", hint="remove it"
            )
        from flushlab.watch import exporter

        for files, folder in ((exporter.GRAFANA, print_grafana), (exporter.PROMETHEUS, print_prometheus)):
            for path in exporter.copy(files, folder) if folder else ():
                stdout.print(str(path), soft_wrap=True)
        return
    if spec.record is not None:
        if Path(spec.record).name == "-":
            raise UsageError("--record writes a file", hint="name a new file, such as shop.load")
        for name, is_given in {**given, "terminal": terminal}.items():
            if name in ("campaign", "listen", "terminal") and is_given:
                raise UsageError(f"--{name} has no effect with --record", hint="remove one of them")
        _record(
            {name: one for name, one in given.items() if name not in RECORDING}, spec.record, spec.seconds
        )
        return
    from flushlab.watch import watching

    with watching(page=not terminal, progress=say, **given) as watch:
        if not terminal:
            base = watch.url.partition("?")[0]
            stdout.print(f"page     {watch.url}\nmetrics  {base}metrics", soft_wrap=True)
            say("stop with Ctrl-C" if watch.is_busy else "nothing is running yet: waiting; stop with Ctrl-C")
        follow(watch, shown=terminal)


def _record(given: Mapping[str, Any], file: str, seconds: float | None) -> None:
    from flushlab.diagnosis.doctor import reach
    from flushlab.diagnosis.load import record

    path = Path(file)
    ended = f"recorded in {path}: flushlab doctor --from {path} judges it"
    try:
        record(reach(**given), path, seconds, say)
    except KeyboardInterrupt:
        say(ended)
        raise SystemExit(130) from None
    say(ended)


def follow(watch: Watch, *, shown: bool) -> None:
    if not shown:
        told = ""
        for sample in _samples(watch):
            if sample.failed not in ("", told):
                print_warning(f"nothing is seen: {sample.failed}")
            told = sample.failed
    elif stdout.is_terminal:
        with Live(console=stdout, auto_refresh=False, screen=True) as live:
            for sample in _samples(watch):
                live.update(table(sample), refresh=True)
    else:
        for sample in _samples(watch):
            stdout.print(line(sample), soft_wrap=True)


def _samples(watch: Watch) -> Iterator[Sample]:
    last = watch.ring.last
    while not watch.ring.closed:
        if watch.ring.wait(last, _WAIT_S) and watch.latest is not None:
            last = watch.ring.last
            yield watch.latest
            if watch.known.refused is not None and watch.latest.running is None:
                raise watch.known.refused


def table(sample: Sample) -> RenderableType:
    head, *rest = [(name, value) for name, value in _rows(sample) if value]
    lines = [Text(head[1], style="bold" if sample.server.up else "bold red")]
    lines += [Text(f"{name:<13}{value}", no_wrap=True, overflow="ellipsis") for name, value in rest]
    return Group(*(line if len(line) <= WIDTH else line[:WIDTH] for line in lines))


def line(sample: Sample) -> str:
    (_, server), *rest = [(name.strip(), value) for name, value in _rows(sample) if value]
    return " · ".join([server, *(f"{name} {value}".strip() for name, value in rest)])


def _rows(sample: Sample) -> Iterator[tuple[str, str]]:
    server, machine, waits = sample.server, sample.machine, sample.lock_waits
    if sample.failed:
        yield "", f"nothing is seen: {_plain(sample.failed)}"
    elif server.up or not server.why:
        name = server.name or "no server"
        yield "", name if server.up else f"{name}: looking for it"
    else:
        why = _plain(server.why)
        yield "", f"{server.name}: down, {why}" if server.name else why
    if server.missing:
        yield "not shown", f"what takes {', '.join(server.missing)}"
    if (running := sample.running) is not None:
        block = "" if running.round is None else f" {running.round}"
        parts = [f"{running.kind} {running.campaign}".strip(), f"{running.stage}{block}", _plain(running.arm)]
        if running.left_s is not None:
            parts.append(f"{format_seconds(running.left_s)} left")
        yield "running", ", ".join(filter(None, parts))
    if sample.throughput is not None:
        text = f"{_count(sample.throughput)} {sample.unit}"
        if sample.p50_ms is not None and sample.p99_ms is not None:
            text += f", p50 {sample.p50_ms:.3g} ms, p99 {sample.p99_ms:.3g} ms"
        yield "throughput", text
    for one in sample.ratios:
        early = "  (interim)" if one.early else ""
        name = {"p99": "lower p99", "latency": "lower latency"}.get(one.objective, "ratio")
        yield name, f"{_plain(one.arm)}  {one.mid:.2f}  {one.low:.2f} – {one.high:.2f}{early}"
    if (fill := sample.fill) is not None:
        share = fill.rows / fill.total if fill.total else 0.0
        done = f"{_plain(fill.table)} {fill.rows:,} of {fill.total:,} rows ({share:.0%})"
        yield "fill", f"{done}, {fill.rows_per_s:,.0f} rows/s"
        yield "", f"{format_seconds(fill.left_s)} left, bound by {fill.bound_by}"
    yield from _bound(sample)
    if (age := sample.redo.checkpoint_age) is not None:
        capacity = sample.redo.capacity
        of = f" of {format_size(capacity)} ({age / capacity:.0%})" if capacity else ""
        yield "redo", f"{format_size(age)}{of}"
    yield "dirty pages", "" if sample.dirty is None else f"{sample.dirty:.1%} of the buffer pool"
    syncs = sample.fsyncs.items()
    yield "fsyncs/s", ", ".join(f"{name} {_count(rate)}" for name, rate in syncs if rate is not None)
    yield "binlog", "" if sample.binlog_bytes_per_s is None else f"{format_size(sample.binlog_bytes_per_s)}/s"
    if sample.commits_per_group is not None:
        yield "group commit", f"{sample.commits_per_group:.1f} transactions a group"
    rows = sample.rows_per_s.items()
    yield "rows/s", ", ".join(f"{_count(rate)} {name}" for name, rate in rows if rate is not None)
    if waits.now is not None:
        yield "lock waits", f"{waits.now} now" + ("" if waits.per_s is None else f", {_count(waits.per_s)}/s")
    shares = {
        "CPU pressure": machine.cpu_pressure,
        "I/O pressure": machine.io_pressure,
        "others": machine.others,
        "steal": machine.steal,
    }
    yield "machine", ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share is not None)
    for number, alike in enumerate(sample.connections[:CONNECTIONS_SHOWN]):
        inside = f", {alike.in_transaction} inside a transaction" if alike.in_transaction else ""
        text = f"{alike.count:,} {_plain(alike.user)} {alike.command}, the oldest"
        yield "connections" if not number else " ", f"{text} {format_seconds(alike.oldest_s)}{inside}"
    if len(sample.connections) > CONNECTIONS_SHOWN:
        yield " ", f"and {len(sample.connections) - CONNECTIONS_SHOWN} kinds more"


def _bound(sample: Sample) -> Iterator[tuple[str, str]]:
    if (found := sample.diagnosis) is None:
        return
    from flushlab.diagnosis.shares import times
    from flushlab.diagnosis.waits import wait_words

    measured = [one for one in found.findings if one.strength != "hint"]
    yield "writes", "" if measured else found.answer
    for one in measured:
        limit = ", no bound" if one.at_most is None else f", at most {times(one.at_most)}"
        share = f"{one.mid:.0%}{limit}: " if one.mid is not None else ""
        yield one.strength, f"{share}{one.title}"
    yield "hints", ", ".join(one.name for one in found.findings if one.strength == "hint")
    waits = sorted(found.waits.items(), key=lambda one: -one[1])
    yield "writers", ", ".join(f"{wait_words(wait)} {mean:.1f}" for wait, mean in waits if mean >= 0.05)


def _count(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def _plain(text: str) -> str:
    """Names are the server's: no control characters of theirs reach a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
