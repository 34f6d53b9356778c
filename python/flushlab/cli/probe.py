"""`flushlab probe`: what this disk allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import structs

from flushlab.cli import options
from flushlab.cli.consoles import stdout
from flushlab.cli.output import Forms, print_warning, say
from flushlab.errors import UsageError
from flushlab.spec import Option
from flushlab.spec.build import build, words
from flushlab.spec.commands import ProbeSpec

if TYPE_CHECKING:
    from flushlab.probe.against import MeasuredServer
    from flushlab.probe.ceilings import Matrix
    from flushlab.record import DiskEmulation, ProbeRecord

BENCH_SECONDS, QUICK_BENCH_SECONDS = 5.0, 2.0
BENCH_THREADS = 16


SPEC = ProbeSpec


def probe(
    given: Mapping[str, Any],
    html: Annotated[str | None, Option("Also write an HTML page with plots.", metavar="FILE")] = None,
    json: options.Json = None,
    markdown: options.Markdown = None,
) -> None:
    """Measure what this disk allows: write rates and commits/s.

    No server is involved, except with --server: threads write a redo log and binlogs.
    They compete with the commits of every server on the same disk.

    \b
    Examples:
      flushlab probe --data-root /var/lib/mysql --quick
      flushlab probe --trx-commit 2/1000 --binlog-strategy serial --threads 16,64
      flushlab probe --trx-commit second --threads 64 --switch
      flushlab probe --disk gp3 --quick
      flushlab probe --server mysql@9.7 --set sync_binlog=1000
    """
    from flushlab.cli.progress import StepProgress
    from flushlab.probe.run import ProbeRequest
    from flushlab.probe.run import probe as run
    from flushlab.report import probe as shown
    from flushlab.store import new_id

    forms = Forms(json, markdown, html)
    forms.require_writable()
    spec = build(ProbeSpec, given)
    if spec.against and spec.server:
        raise UsageError("--against and --server cannot be combined", hint="use one of them")
    matrix = _matrix(spec)
    if spec.data_root:
        limit = "until it ends" if spec.window else f"for about {15 if spec.quick else 60} s"
        print_warning(f"the load competes with production commits on the disk of {spec.data_root}, {limit}")
    spec = structs.replace(spec, data_root=str(_directory(spec)))
    with _disk(Path(str(spec.data_root)), spec.disk) as (where, emulated):
        request = ProbeRequest(
            directory=where,
            disk=emulated,
            quick=spec.quick,
            seconds=spec.window,
            matrix=matrix,
            switch=spec.switch,
            own_us=spec.own_us,
            servers=_servers(where, spec),
            command=" ".join(["flushlab probe", *words(spec)]),
        )
        with StepProgress() as progress:
            record = run(request, progress.step)
    campaign = new_id("probe")
    save = partial(_save, record, campaign, told=forms.is_printed and not html)
    forms.deliver(shown.document(record, campaign), shown.as_json(record), save)


def _directory(spec: ProbeSpec) -> Path:
    from flushlab.process import reap, run_folder

    for reaped in reap():
        say(f"cleaned up after an earlier run: {reaped}")
    from flushlab.probe.disk import existing

    return existing(Path(spec.data_root)) if spec.data_root else run_folder()


@contextmanager
def _disk(where: Path, disk: str | None) -> Iterator[tuple[Path, DiskEmulation | None]]:
    from flushlab.datadir import open_volume

    if disk is None:
        yield where, None
        return
    with open_volume(where, disk, say) as volume:
        assert volume.slow_disk is not None, "it was asked for"
        yield volume.data_root.path, volume.slow_disk.record


def _matrix(spec: ProbeSpec) -> Matrix:
    from flushlab.probe.ceilings import FULL, QUICK, Matrix, parse_binlog_strategy, parse_sync_settings

    usual = QUICK if spec.quick else FULL
    pairs = map(parse_sync_settings, spec.trx_commit)
    strategies = map(parse_binlog_strategy, spec.binlog_strategy)
    return Matrix(
        sync_settings=tuple(dict.fromkeys(pairs)) or usual.sync_settings,
        strategies=tuple(dict.fromkeys(strategies)) or usual.strategies,
        threads=tuple(sorted(set(spec.threads))) or usual.threads,
        left_out=() if spec.trx_commit or spec.binlog_strategy else usual.left_out,
    )


def _servers(where: Path, spec: ProbeSpec) -> tuple[MeasuredServer, ...]:
    if spec.against:
        return _of_store(spec.against)
    return (_of_bench(where, spec.server, spec),) if spec.server else ()


def _of_store(name: str) -> tuple[MeasuredServer, ...]:
    from flushlab.probe.against import of_campaign
    from flushlab.report.stored import connections_of, request_of
    from flushlab.store import existing_store

    campaign, _, number = name.partition(":")
    if number and not number.isdigit():
        raise UsageError(f"--against {name!r} is not a trial", hint="CAMPAIGN:NUMBER, or CAMPAIGN")
    with existing_store() as store:
        row = store.campaign(campaign)
        trials = list(store.trials(row.id))
    connections = connections_of(request_of(row))
    return tuple(of_campaign(row.id, int(number) if number else None, connections, trials))


def _of_bench(where: Path, server: str, spec: ProbeSpec) -> MeasuredServer:
    """A fresh server has its data on the disk that is probed."""
    from flushlab.campaign.bench import bench
    from flushlab.probe.against import of_trial

    kept = server.startswith("sandbox:")
    threads = max(spec.threads, default=BENCH_THREADS)
    trial = bench(
        server=server,
        threads=threads,
        settings=spec.settings if kept else {"log_bin": "ON", **spec.settings},
        duration=QUICK_BENCH_SECONDS if spec.quick else BENCH_SECONDS,
        data_root=None if kept else where,
        progress=say,
    )
    return of_trial(f"bench of {server}", trial, threads)


def _save(record: ProbeRecord, campaign: str, *, told: bool) -> None:
    import msgspec

    from flushlab.store import open_store

    with open_store() as store:
        plan = {"title": f"What {record.medium.directory} allows", "quick": record.quick}
        store.create_campaign(campaign, "probe", msgspec.json.encode(plan))
        store.set_state(campaign, "done", msgspec.json.encode(record))
    if told:
        stdout.print(f"HTML page: flushlab report {campaign}", soft_wrap=True)
