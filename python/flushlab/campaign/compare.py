"""`compare`: configurations against each other, interleaved.

Sits in `campaign`: a series whose arms are whole configurations, the first of which is its base.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.base import file_settings
from flushlab.campaign.data import open_data
from flushlab.campaign.facts import SeriesFacts
from flushlab.campaign.series import Asked, Loaded, check, run
from flushlab.campaign.target import Target, absolute
from flushlab.campaign.watcher import Watcher, watching
from flushlab.errors import UsageError
from flushlab.plan.plan import COMPARE, RESERVED, ArmPlan, Plan, WorkloadSpec
from flushlab.record import Value, Warning
from flushlab.server.base_file import fit_here
from flushlab.settings.fit import Fit, as_warnings, lines
from flushlab.settings.given import parse_settings
from flushlab.workload import settled_name

LOOKS_BLOCKS = 10
"""From so many blocks on the arms are judged while they run, too: of fewer, a look takes too much."""

Configuration = Mapping[str, Value] | Path | str
"""Settings, or an option file."""


def compare(
    configurations: Mapping[str, Configuration],
    *,
    server: str = "mariadb",
    workload: str = "oltp_update_non_index",
    memory: str | None = None,
    exact: bool = False,
    blocks: int = 5,
    precision: float | None = None,
    seconds: float = 10.0,
    dataset: Path | str | None = None,
    database: str | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk_iops: int | None = None,
    seed: int = 1,
    wait_for_quiet: bool = False,
    dry_run: bool = False,
    progress: Progress | Watcher = silent,
    **options: Value,
) -> SeriesFacts:
    """Compares configurations: every block runs each of them once, and the first one twice, in random order.

    The campaign is stored; `series(resume=ID)` resumes one that was interrupted.

    Args:
        configurations: by their names; the first is what the others are compared with.
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL.
        workload: one of sysbench's, `upsert`, `txn:FILE`, `sql:FILE` or `command: …`.
        memory: that the server may use, like `2G`; option files that need more are all scaled by one factor.
        exact: refuse option files that this machine cannot hold, instead of scaling them.
        blocks: rounds, at most; two at least, five make good intervals.
        precision: end as soon as every ratio's interval is this narrow (0.02 is ± 2 %); a configuration whose
            interval is runs no more.
        seconds: length of a measured window.
        dataset: your data: a dump, a dump folder or a stopped server's data directory.
        database: the workload's, of those in the data.
        basedir: use the server installed there.
        data_root: where data directories go.
        disk_iops: make a slow disk: at most this many writes/s (root, cgroups).
        seed: of every random order.
        wait_for_quiet: wait until other programs leave the machine alone, for half an hour at most.
        dry_run: only say what would be done, in `outlook`; nothing is started or written.
        progress: takes a line at a time.
        **options: of the workload, like `threads=16` or `tables=8`.

    Returns:
        What was found: `arms` are the configurations but the first, each with a `comparison`: its `ratio`
        (`estimate`, `low`, `high`; above 1 is faster), `verdict` and the `blocks` it ran in. `control` is
        the first against itself.

    Raises:
        UsageError: fewer than two configurations, or one that makes no sense.
        FlushlabError: what no record can hold; what was measured is safe.
    """
    if len(configurations) < 2:
        raise UsageError("there is nothing to compare", hint="give two or more configurations")
    if reserved := [name for name in list(configurations)[1:] if name in RESERVED or not name]:
        raise UsageError(f"a configuration cannot be called {reserved[0]!r}", hint="give it another name")
    asked = Asked(
        blocks=blocks,
        looks=precision is not None or blocks >= LOOKS_BLOCKS,
        precision=precision,
        seconds=seconds,
        scale=1.0,
        basedir=absolute(basedir),
        data_root=absolute(data_root),
        disk_iops=disk_iops,
        seed=seed,
        wait_for_quiet=wait_for_quiet,
        dry_run=dry_run,
        data=open_data(dataset, database, workload, watching(progress).say),
    )
    check(asked)
    watcher = watching(progress)

    def load(target: Target) -> Loaded:
        found = {name: _settings(given, target, watcher) for name, given in configurations.items()}
        files = {name: own for name, own in found.items() if not isinstance(configurations[name], Mapping)}
        threads = options.get("threads")
        connections = threads if isinstance(threads, int) else 1
        factor, fits = 1.0, dict[str, Fit]()
        for _ in range(2):  # the second time all by the smallest factor of the first
            for name, own in files.items():
                fits[name] = fit_here(
                    own,
                    target.identity,
                    target.volume.data_root,
                    memory=memory,
                    exact=exact,
                    connections=connections,
                    factor=factor,
                )
                factor = min(factor, fits[name].factor)
        notes: list[Warning] = []
        for name, one in fits.items():
            found[name] = dict(one.settings)
            notes += [msgspec.structs.replace(note, text=f"{name}: {note.text}") for note in as_warnings(one)]
            for line in lines(one, "--memory changes it, --exact refuses it"):
                watcher.say(line)
        first, *others = found.items()
        plan = Plan(
            name=COMPARE,
            title=f"{', '.join(name for name, _ in others)} against {first[0]}",
            workload=WorkloadSpec(name=settled_name(workload), options=options),
            base=first[1],
            arms=tuple(ArmPlan(name=name, settings=own, defaults=("*",)) for name, own in others),
            base_name=first[0],
            best=False,
        )
        return Loaded(plan, "", Path.cwd(), tuple(notes))

    return run(load, asked, server, watcher)


def _settings(given: Configuration, target: Target, watcher: Watcher) -> dict[str, Value]:
    if not isinstance(given, Mapping):
        return file_settings(Path(given), target, watcher)
    return parse_settings(given, target.build.flavor, target.build.version, target.catalog)
