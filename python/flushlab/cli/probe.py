"""`flushlab probe`: what this disk allows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flushlab.cli import options
from flushlab.cli.output import deliver, emit_json, require_writable, say, stdout
from flushlab.errors import UsageError
from flushlab.spec import Option
from flushlab.spec.option import assigned

if TYPE_CHECKING:
    from flushlab.probe.against import MeasuredServer
    from flushlab.probe.ceilings import Matrix
    from flushlab.record import DiskEmulation, ProbeRecord

MIN_SECONDS, MAX_SECONDS = 0.05, 60.0
BENCH_SECONDS, QUICK_BENCH_SECONDS = 5.0, 2.0


def probe(
    directory: Annotated[
        Path | None,
        Option("A directory on the disk; default: where sandboxes keep their data.", flag="dir"),
    ] = None,
    quick: Annotated[bool, Option("Measure less, in 15 s instead of 60 s.")] = False,
    seconds: Annotated[
        float | None,
        Option("Length of every window in seconds, instead of what fits."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        Option(
            "strict, second, relaxed, or innodb_flush_log_at_trx_commit/sync_binlog such as 2/1000;"
            " repeatable."
        ),
    ] = None,
    flush: Annotated[
        list[str] | None,
        Option("Only this flush mode: serial, parallel-leader, parallel or redo; repeatable."),
    ] = None,
    committers: Annotated[
        str | None,
        Option("Numbers of committing threads, such as 1,16,64."),
    ] = None,
    switch: Annotated[
        bool,
        Option("Also switch between the flush modes while commits go on."),
    ] = False,
    against: Annotated[
        str | None,
        Option(
            "Compare a stored trial with the ceiling: CAMPAIGN:NUMBER, or CAMPAIGN for every arm.",
            metavar="TRIAL",
        ),
    ] = None,
    server: Annotated[
        str | None,
        Option("Compare a short bench on this server with the ceiling."),
    ] = None,
    threads: Annotated[int, Option("Connections of the bench on --server.")] = 16,
    setting: Annotated[
        list[str] | None,
        Option("A setting of the bench on --server, NAME=VALUE; repeatable.", flag="set"),
    ] = None,
    report: Annotated[
        str | None,
        Option("Also write an HTML page with plots.", metavar="FILE"),
    ] = None,
    disk: options.Disk = None,
    json: options.Json = None,
) -> None:
    """Measure what this disk allows: write rates and commits/s.

    No server is involved, except with --server: threads write a redo log and binlogs.

    \b
    Examples:
      flushlab probe --dir /var/lib/mysql --quick
      flushlab probe --policy 2/1000 --flush serial --committers 16,64
      flushlab probe --policy second --committers 64 --switch
      flushlab probe --disk gp3 --quick
      flushlab probe --server mysql@9.7 --set sync_binlog=1000
    """
    from flushlab.cli.progress import StepProgress
    from flushlab.probe import ceilings
    from flushlab.probe.run import Request
    from flushlab.probe.run import probe as run
    from flushlab.report import probe as shown

    _check(seconds, against, server, setting, json, report)
    matrix = _matrix(quick, policy, flush, committers)
    asked = _directory(directory)
    with _disk(asked, disk) as (where, emulated):
        request = Request(
            directory=where,
            disk=emulated,
            quick=quick,
            seconds=seconds,
            matrix=matrix,
            switch=switch,
            servers=_servers(where, against, server, threads, setting or [], quick),
            command=_command(
                {
                    "--dir": [str(asked)],
                    "--disk": [disk] if disk else [],
                    "--seconds": [f"{seconds:g}"] if seconds is not None else [],
                    "--policy": policy or [],
                    "--flush": flush or [],
                    "--committers": [committers] if committers is not None else [],
                    "--against": [against] if against else [],
                    "--server": [server] if server else [],
                    "--threads": [str(threads)] if server else [],
                    "--set": setting or [],
                },
                {"--quick": quick, "--switch": switch},
            ),
        )
        with StepProgress() as progress:
            record = run(request, progress, ceilings.native())
    deliver(
        *([partial(stdout.print, shown.render(record))] if json != "-" else []),
        partial(emit_json, shown.document(record), json),
        partial(_save, record, report, told=json != "-"),
    )


def _check(
    seconds: float | None,
    against: str | None,
    server: str | None,
    settings: list[str] | None,
    json: str | None,
    report: str | None,
) -> None:
    """Refuses what cannot work before anything is measured."""
    require_writable(json)
    require_writable(report)
    if seconds is not None and not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise UsageError(
            f"--seconds {seconds:g} is out of range", hint=f"it takes {MIN_SECONDS:g} to {MAX_SECONDS:g}"
        )
    if against and server:
        raise UsageError("--against and --server cannot be combined", hint="use one of them")
    if settings and not server:
        raise UsageError("--set needs --server", hint="add --server, or remove --set")


def _command(options: dict[str, list[str]], switches: dict[str, bool]) -> str:
    """The command line of these."""
    words = [word for name, values in options.items() for value in values for word in (name, value)]
    return shlex.join(["flushlab", "probe", *words, *(name for name, given in switches.items() if given)])


def _directory(chosen: Path | None) -> Path:
    """Where to probe: what was named, or where sandboxes lie; what killed commands left is removed first."""
    from flushlab.process import reap, run_folder

    for reaped in reap():
        say(f"cleaned up after an earlier run: {reaped}")
    from flushlab.probe.folder import existing

    return existing(chosen) if chosen is not None else run_folder()


@contextmanager
def _disk(where: Path, disk: str | None) -> Iterator[tuple[Path, DiskEmulation | None]]:
    """Where to probe: a disk of its own in that place, if one is asked for, and how slow that is."""
    from flushlab.datadir import open_volume

    if disk is None:
        yield where, None
        return
    with open_volume(where, None, disk, say) as volume:
        assert volume.slow_disk is not None, "it was asked for"
        yield volume.data_root.path, volume.slow_disk.record


def _matrix(
    quick: bool, policies: list[str] | None, flush: list[str] | None, committers: str | None
) -> Matrix:
    """What is measured: the usual matrix, but for what was named.

    Raises:
        UsageError: a word that is none, or a flush mode that no policy of these permits.
    """
    from flushlab.probe import policy
    from flushlab.probe.ceilings import FULL, QUICK, Matrix

    usual = QUICK if quick else FULL
    return Matrix(
        policies=tuple(dict.fromkeys(map(policy.parse_policy, policies))) if policies else usual.policies,
        modes=tuple(dict.fromkeys(map(policy.parse_flush, flush))) if flush else usual.modes,
        committers=policy.parse_committers(committers) if committers is not None else usual.committers,
        left_out=() if policies or flush else usual.left_out,
    )


def _servers(
    where: Path, against: str | None, server: str | None, threads: int, settings: list[str], quick: bool
) -> tuple[MeasuredServer, ...]:
    if against:
        return _of_store(against)
    seconds = QUICK_BENCH_SECONDS if quick else BENCH_SECONDS
    return (_of_bench(where, server, threads, settings, seconds),) if server else ()


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


def _of_bench(where: Path, server: str, threads: int, settings: list[str], seconds: float) -> MeasuredServer:
    """A short bench of what the ceilings commit; a fresh server has its data on the disk that is probed."""
    from flushlab.campaign.bench import bench
    from flushlab.probe.against import of_trial

    given = assigned(settings)
    kept = server.startswith("sandbox:")
    if not kept:
        given = {"log_bin": "ON", **given}
    trial = bench(
        server=server,
        threads=threads,
        settings=given,
        seconds=seconds,
        data_root=None if kept else where,
        progress=say,
    )
    return of_trial(f"bench of {server}", trial, threads)


def _save(record: ProbeRecord, page: str | None, *, told: bool) -> None:
    """Stores a probe as a campaign of its own kind, so that `flushlab report` finds it; writes its page."""
    import msgspec

    from flushlab.store import new_id, open_store

    with open_store() as store:
        campaign = new_id("probe")
        plan = {"title": f"What {record.medium.directory} allows", "quick": record.quick}
        store.create_campaign(campaign, "probe", msgspec.json.encode(plan))
        store.set_state(campaign, "done", msgspec.json.encode(record))
        if told and not page:
            stdout.print(f"HTML page: flushlab report {campaign}", soft_wrap=True)
        if page:
            from flushlab.cli.report import write_page

            write_page(store, campaign, Path(page))
