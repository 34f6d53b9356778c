"""`compare`: configurations against each other, interleaved.

Sits in `campaign`: a series whose arms are whole configurations, the first of which is its base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from flushlab.build import Progress, silent
from flushlab.campaign.base import file_settings, persisted_settings, require_scalable
from flushlab.campaign.configurations import Configuration, Given, named_after, read, spelled
from flushlab.campaign.data import bytes_of, open_data
from flushlab.campaign.duration import ends_by_itself
from flushlab.campaign.external import own_server
from flushlab.campaign.facts import SeriesFacts
from flushlab.campaign.objective import objective_of
from flushlab.campaign.series import DEFAULT_SERVER, Asked, Compared, Loaded, check, check_blocks, run
from flushlab.campaign.target import Target, absolute, latency_of
from flushlab.campaign.watcher import Watcher, watching
from flushlab.campaign.way import LOOKS_BLOCKS
from flushlab.errors import UnknownSetting, UsageError, ValueOutOfRange
from flushlab.plan.plan import COMPARE, ArmPlan, Plan, WorkloadSpec
from flushlab.record import Value, Warning
from flushlab.server.base_file import fit_here
from flushlab.settings.catalog import canonical
from flushlab.settings.fit import Fit, as_warnings, lines
from flushlab.settings.floor import Floor, parse_floor
from flushlab.settings.given import parse_settings
from flushlab.settings.option_names import load_option_names
from flushlab.workload import settled_name, workload_options
from flushlab.workload.parse import MAX_SECONDS, MIN_SECONDS

DEFAULT_BLOCKS = 5
DEFAULT_SECONDS = 60.0
PRECISE_BLOCKS = 20
PRECISE_SECONDS = 600.0
"""At most, where a precision is to be reached."""


def compare(
    configurations: Sequence[str] | Mapping[str, Configuration] = (),
    *,
    server: str | Sequence[str] = DEFAULT_SERVER,
    dsn: str | None = None,
    defaults_file: Path | str | None = None,
    allow_writes: bool = False,
    tune_server: bool = False,
    workload: str = "oltp_update_non_index",
    base: Path | str | None = None,
    memory: str | None = None,
    exact: bool = False,
    blocks: int | None = None,
    precision: float | None = None,
    floor: Floor | str | None = None,
    objective: str | None = None,
    seconds: float | None = None,
    dataset: Path | str | None = None,
    database: str | None = None,
    basedir: Path | str | None = None,
    data_root: Path | str | None = None,
    disk_iops: int | None = None,
    disk: str | None = None,
    cluster: int | None = None,
    network_latency: str | None = None,
    seed: int = 1,
    fresh: bool = False,
    wait_for_quiet: bool = False,
    dry_run: bool = False,
    resume: str | None = None,
    progress: Progress | Watcher = silent,
    **options: Value,
) -> SeriesFacts:
    """Compares configurations: every block runs each of them once, and the first one twice, in random order.

    The arguments are those of `flushlab compare` under the same names. The campaign is stored; `resume`
    resumes an interrupted one.

    Args:
        configurations: the first is what the others are compared with. As typed: `base`, an option file or
            `NAME=VALUE …`, perhaps after `label: `; or settings and option files by their names.
        server: a build (`mariadb`, `mysql@5.7`), a tarball or a URL. Of several, each has all configurations;
            the first is its base. The bases are compared with each other, too.
        dsn: your own server instead, or a node of your Galera cluster, whose other nodes are found, or all of
            them: `mysql://USER:PASSWORD@NODE1,NODE2,NODE3`. Configurations are settings that it takes while
            it runs, and `base` is how it is.
        defaults_file: the same, by an option file's group `[client]`.
        allow_writes: the load may write to your own server; tables that it makes are dropped at the end.
        tune_server: settings of your own server may be changed; they are put back at the end.
        workload: one of sysbench's, `upsert`, `txn:FILE`, `sql:FILE` or `command: …`.
        base: option file that settings go on top of. None: as typed, an option file that stands first, else
            the server's defaults; by names, the defaults.
        memory: that the server may use, like `2G`; option files that need more are all scaled by one factor.
        exact: refuse option files that this machine cannot hold, instead of scaling them.
        blocks: how often each runs, 5 if None; two at least, five make good intervals. With `precision`: at
            most, 20 if None. Side by side they take turns more often, as long in all.
        precision: end as soon as every ratio's interval is this narrow (0.02 is ± 2 %); a configuration whose
            interval is runs no more.
        floor: the weakest guarantees that may be recommended, instead of those of each server's first
            configuration; configurations below it are measured and shown.
        objective: what is compared: `throughput` or, at a fixed `rate`, `p99` latency; None: whichever it is.
        seconds: measured in all, 60 if None; each configuration and the control have an equal share. With
            `precision`: at most, 600 if None.
        dataset: your data: a dump, a dump folder or a stopped server's data directory.
        database: the workload's, of those in the data.
        basedir: use the server installed there.
        data_root: where data directories go.
        disk_iops: make a slow disk: at most this many writes/s (root, cgroups).
        disk: run on a disk of its own, as slow as this one, such as `gp3` (root).
        cluster: start a Galera cluster of this many nodes in the server's place.
        network_latency: put a network between a cluster's nodes, like `1ms` there and back (root).
        seed: of every random order.
        fresh: start a fresh server for every window, also where configurations could stand side by side.
        wait_for_quiet: wait until other programs leave the machine alone, for half an hour at most.
        dry_run: only say what would be done, in `outlook`; nothing is started or written.
        resume: id of a campaign to resume, in place of configurations.
        progress: takes a line at a time.
        **options: of the workload, like `threads=16` or `tables=8`.

    Returns:
        What was found: `arms` are the configurations but the first, each with a `comparison`: its `ratio`
        (`estimate`, `low`, `high`; above 1 is better), `verdict` and the `blocks` it ran in. `control` is
        the first against itself.

    Raises:
        UsageError: fewer than two configurations, or one that makes no sense.
        FlushlabError: what no record can hold; what was measured is safe.
    """
    watcher = watching(progress)
    first, *others = [server] if isinstance(server, str) else server
    own = own_server(
        dsn,
        defaults_file,
        database=database,
        allow_writes=allow_writes,
        tune_server=tune_server,
        server=others or first != DEFAULT_SERVER,
        base=base,
        memory=memory,
        exact=exact,
        dataset=dataset,
        basedir=basedir,
        data_root=data_root,
        disk_iops=disk_iops,
        disk=disk,
        cluster=cluster,
        network_latency=network_latency,
        fresh=fresh,
        ssl_mode=options.get("ssl_mode"),
        ssl_ca=options.get("ssl_ca"),
    )
    if others and basedir is not None:
        raise UsageError("--basedir is one server", hint="name it as --server PATH, or remove the others")
    if resume is not None:
        if configurations:
            raise UsageError(
                "--resume takes no configurations", hint="the campaign has its own; give --resume alone"
            )
        found = dict[str, Given]()
    else:
        found = read(configurations, base, alone=bool(others))
        if own is not None and (file := next((one.file for one in found.values() if one.file), None)):
            raise UsageError(
                f"{file} cannot be compared on your own server: it has an option file of its own",
                hint="name the settings: NAME=VALUE",
            )
        if own is None:
            require_scalable(memory, dataset, *(one.file for one in found.values()))
    check_blocks(blocks)
    asked_blocks = blocks
    if blocks is None:
        blocks = DEFAULT_BLOCKS if precision is None else PRECISE_BLOCKS
    seconds_in_all = DEFAULT_SECONDS if precision is None else PRECISE_SECONDS
    measured_s, window_s = _timing(
        workload, seconds, seconds_in_all, blocks * (len(found) * (1 + len(others)) + 1)
    )
    asked = Asked(
        memory=memory,
        exact=exact,
        servers=tuple(others),
        own=own,
        blocks=blocks,
        looks=precision is not None or blocks >= LOOKS_BLOCKS,
        precision=precision,
        floor=None if floor is None else parse_floor(floor),
        objective="throughput" if resume else objective_of(objective, workload, options),
        seconds=window_s,
        scale=1.0,
        basedir=absolute(basedir),
        data_root=absolute(data_root),
        disk_iops=disk_iops,
        disk=disk,
        cluster=cluster,
        latency_s=latency_of(network_latency, cluster),
        seed=seed,
        fresh=fresh,
        wait_for_quiet=wait_for_quiet,
        dry_run=dry_run,
        data=None if resume or own else open_data(dataset, database, workload, watcher.say),
    )
    check(asked)

    def load(target: Target) -> Loaded:
        threads = options.get("threads")
        connections = threads if isinstance(threads, int) else 1
        whole, notes = _whole(found, target, asked, connections, watcher)
        (name, settings), *rest = whole.items()
        plan = Plan(
            name=COMPARE,
            title=f"{', '.join(other for other, _ in rest)} against {name}",
            workload=WorkloadSpec(name=settled_name(workload), options=options),
            base=settings,
            arms=tuple(ArmPlan(name=other, settings=own, defaults=("*",)) for other, own in rest),
            base_name=name,
            best=False,
        )
        compared = Compared(
            spelled(found, Path(base) if base else None), absolute(base), measured_s, asked_blocks
        )
        return Loaded(plan, "", Path.cwd(), notes, compared)

    return run(None if resume else load, asked, first, watcher, resume, "compare")


def _timing(
    workload: str, seconds: float | None, default_s: float, runs: int
) -> tuple[float | None, float | None]:
    """Measured seconds in all, and those of one run; None where runs end by themselves.

    Raises:
        UsageError: too few or too many, or they mean nothing to this workload.
    """
    workload_options(workload)  # refuses a name that is no workload's
    if ends_by_itself(workload):
        if seconds is not None:
            kind = workload.partition(":")[0]
            raise UsageError(
                f"--seconds means nothing to {kind}: it runs until it ends",
                hint="--blocks says how often each configuration runs it",
            )
        return None, None
    in_all = default_s if seconds is None else seconds
    if not runs * MIN_SECONDS <= in_all <= runs * MAX_SECONDS:
        hint = f"{runs} runs, those of the control included, need {runs * MIN_SECONDS:g} s at least"
        raise UsageError(f"--seconds {in_all:g} is out of range", hint=hint)
    return in_all, in_all / runs


def _whole(
    found: Mapping[str, Given], target: Target, asked: Asked, connections: int, watcher: Watcher
) -> tuple[dict[str, dict[str, Value]], tuple[Warning, ...]]:
    """Every configuration with all its settings, and what was scaled of the option files."""
    typed = _where_it_exists if asked.servers else _typed
    settings = {name: typed(one.settings, target) for name, one in found.items()}
    _require_different(found, settings)
    if target.external is not None:
        return settings, ()
    persisted = persisted_settings(asked.data, target, watcher)
    files = dict.fromkeys(one.file for one in found.values())
    own = {file: {**file_settings(file, target, watcher), **persisted} for file in files}

    def fit(file: Path | None, factor: float = 1.0, like: str = "") -> Fit:
        return fit_here(
            own[file],
            target.identity,
            target.volume.data_root,
            memory=asked.memory,
            exact=asked.exact,
            connections=connections,
            factor=factor,
            like=like,
            data_bytes=bytes_of(asked.data),
        )

    fits = {file: fit(file) for file in own}
    least = min(fits, key=lambda file: fits[file].factor)
    factor = fits[least].factor
    fits = {
        file: one if one.factor == factor else fit(file, factor, f"{least}") for file, one in fits.items()
    }
    notes: list[Warning] = []
    where = f"{target.build.name}: " if asked.servers else ""
    for file, fitted in fits.items():
        notes += [
            msgspec.structs.replace(note, text=f"{file}: {note.text}" if file else note.text)
            for note in as_warnings(fitted)
        ]
        named = f"{where}{file or 'the base'}" if where or file else ""
        for line in lines(fitted, "--memory changes it, --exact refuses it", file=named):
            watcher.say(line)
    whole = {name: {**fits[one.file].settings, **settings[name]} for name, one in found.items()}
    return whole, tuple(notes)


def _require_different(found: Mapping[str, Given], settings: Mapping[str, Mapping[str, Value]]) -> None:
    """Refuses settings that mean the same, unless a label tells that they are meant to."""
    names = list(found)
    for place, name in enumerate(names):
        for other in names[:place]:
            if named_after(name, found[name].settings) and (
                (found[name].file, settings[name]) == (found[other].file, settings[other])
            ):
                raise UsageError(
                    f"{name!r} means the same as {other!r}",
                    hint="give each configuration once, or a label of its own",
                )


def _typed(given: Mapping[str, Value], target: Target) -> dict[str, Value]:
    """Settings as the server takes them.

    Raises:
        UsageError: one that it does not have, or does not take so.
    """
    build = target.build
    settings = parse_settings(given, build.flavor, build.version, target.catalog)
    for name in settings:
        if (
            name not in target.catalog
            and load_option_names().knows(name, build.flavor, build.version) is False
        ):
            near = load_option_names().near(name, build.flavor, build.version)
            raise UnknownSetting(
                f"{build.name} has no {name}",
                hint=f"did you mean {near}?"
                if near
                else f"`flushlab settings {name}` says which versions do",
            )
    return settings


def _where_it_exists(given: Mapping[str, Value], target: Target) -> dict[str, Value]:
    """The same for one of several servers: what only others have is an arm that is not in its version.

    Raises:
        UsageError: no server has it.
    """
    try:
        return _typed(given, target)
    except (UnknownSetting, ValueOutOfRange):
        names = {canonical(name) for name in given}
        if any(name not in target.catalog for name in names):
            raise
        return {canonical(name): value for name, value in given.items()}
