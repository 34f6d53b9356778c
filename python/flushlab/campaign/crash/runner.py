"""Runner: crashes the configuration that is due, one row after the other. Sits in `campaign.crash`.

A run is recorded once and cut many times (`_recorded`); or what lives is killed many times (`_killed`): the
process of a server, or nodes of a cluster. What that needs lives until the next configuration is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, get_ident
from typing import Self

import msgspec

from flushlab.campaign.crash.experiment import MOST_CRASHES, CrashExperiment, CrashRequest, require_disk
from flushlab.campaign.crash.plan import CrashPlan, load_of
from flushlab.campaign.loop import require_same_build
from flushlab.campaign.pool.work import Composed, CrashRows, CrashTask, RunCrashes
from flushlab.campaign.target import open_servers
from flushlab.campaign.watcher import Watcher
from flushlab.crashed import recorded as points_of
from flushlab.crashed.judge import read_notes
from flushlab.crashed.killed import Killed, KilledCluster, KilledServer
from flushlab.crashed.recording import NOTES, RUN, Fault, RecordedRun, record
from flushlab.datadir.fault_disk import record_owner, remove_record
from flushlab.errors import MeasurementError, NoSpace, StartFailed, StorageError, UsageError
from flushlab.experiment.protocol import Request
from flushlab.process.guard import strike
from flushlab.process.run_record import passing_folder
from flushlab.progress import Progress
from flushlab.record import Crash, CrashArm, CrashKind, CrashPoint, CrashRow
from flushlab.server.sandbox.log import refusal


def record_of(keep: Path | None, owner: str) -> Path | None:
    """None if nothing was committed in it; `owner`: its mark; empty: nobody's is found again."""
    return next((folder for folder in _records_of(keep, owner) if _can_be_judged(folder)), None)


def remove_stumps(keep: Path | None, owner: str) -> None:
    """Records that this flushlab cannot read stay."""
    for folder in list(_records_of(keep, owner)):
        if _is_stump(folder):
            remove_record(folder)


def _records_of(keep: Path | None, owner: str) -> Iterator[Path]:
    for folder in sorted(keep.glob("*.record")) if keep and owner else ():
        if record_owner(folder) == owner:
            yield folder


def _is_stump(record: Path) -> bool:
    if not (record / RUN).exists():
        return True
    with suppress(StorageError):
        run = RecordedRun.read(record)
        run.recordings(record)
        return not run.whole and not _can_be_judged(record)
    return False


def _can_be_judged(record: Path) -> bool:
    try:
        run = RecordedRun.read(record)
        run.recordings(record)
        run.completed(record, read_notes(record / NOTES))
    except StorageError:
        return False
    return True


def require_build(record: Path, recorded: str, build: str) -> None:
    if recorded != build:
        raise UsageError(
            f"the record {record} is of the build {recorded}, not of {build}",
            hint="name its server with --server, or record again in another folder",
        )


_FAULTS: Mapping[CrashKind, Fault] = {"eio": "eio", "full": "full"}
_FULL = ("No space left on device", "is full")
"""Messages of servers whose disk is full: of errno 28, and error 1114."""

CrashNumbers = Callable[[Sequence[int]], CrashRows]


class CrashRunner:
    """A recording, or a server that is killed, lives until another configuration is due."""

    def __init__(self, plan: CrashPlan, experiment: CrashExperiment, campaign: str = "") -> None:
        self._plan, self._experiment, self._campaign = plan, experiment, campaign
        self._stack = ExitStack()
        self._name = ""
        self._crash: CrashNumbers | None = None
        self._rows: CrashRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows is not None:
            self._rows.close()
        self._end()

    def run(self, request: Request) -> CrashRow:
        if request.arm.name != self._name or self._rows is None:
            if self._rows is not None:
                self._rows.close()
            numbers = self._experiment.missing(request.arm.name)
            self._rows = self.crash(CrashTask(arm=request.arm.name, numbers=tuple(numbers)))
        return next(self._rows)

    def crash(self, task: CrashTask) -> CrashRows:
        arm = self._experiment.arm(task.arm)
        assert arm is not None, "the campaign has it"
        began = time.monotonic()
        try:
            if self._crash is None or task.arm != self._name:
                self._end()
                crashes = self._experiment.crashes(arm.name)
                self._crash = self._stack.enter_context(crashing(self._plan, arm, crashes, self._campaign))
                self._name = arm.name
            with closing(self._crash(task.numbers)) as rows:
                for row in rows:
                    seconds = time.monotonic() - began - sum(row.seconds.values())
                    yield msgspec.structs.replace(row, seconds={**row.seconds, "crash": max(0.0, seconds)})
                    began = time.monotonic()
        except GeneratorExit:  # nobody waits for the task; the next one finds all as it is
            raise
        except BaseException as error:
            self._name, self._crash = "", None
            if not self._stack.__exit__(type(error), error, error.__traceback__):
                raise

    def _end(self) -> None:
        self._name, self._crash = "", None
        self._stack.close()


@contextmanager
def crashing(plan: CrashPlan, arm: CrashArm, crashes: int, campaign: str = "") -> Iterator[CrashNumbers]:
    on_disk = plan.spec.failure != "process"
    try:
        if not on_disk or plan.which_of(arm) != "all":
            with _killed(plan, arm, crashes) as crash:
                yield crash
        else:
            with _recorded(plan, arm, crashes, f"{campaign} {arm.name}" if campaign else "") as crash:
                yield crash
    except NoSpace as error:
        if error.of_data and on_disk:
            error.hint = _larger(plan)
        raise
    except MeasurementError as error:
        if on_disk and any(words in error.message for words in _FULL):
            error.hint = f"{_larger(plan)}, or record a shorter --duration"
        raise
    except StartFailed as error:
        if error.refusal is None:
            raise
        raise refusal(error.refusal, plan.target.build) from error


def _larger(plan: CrashPlan) -> str:
    return f"make the disk larger: --disk-size {2 * plan.spec.disk_size} (MiB)"


@contextmanager
def _killed(plan: CrashPlan, arm: CrashArm, crashes: int) -> Iterator[CrashNumbers]:
    plan.watcher.say(f"{arm.name}: crashing")
    with _victim(plan, arm) as victim:
        points = points_of.kill_points(
            crashes, plan.spec.seed * MOST_CRASHES, recovery=victim.may_crash_in_recovery
        )

        def crash(numbers: Sequence[int]) -> CrashRows:
            for number in numbers:
                crash = victim.kill(points[number])
                judged = plan.judged(arm, victim.storage)
                judged = msgspec.structs.replace(judged, commits_per_s=victim.commits_per_s)
                yield CrashRow(arm=judged, number=number, crash=crash)

        yield crash


@contextmanager
def _victim(plan: CrashPlan, arm: CrashArm) -> Iterator[Killed]:
    root, server = plan.target.volume.data_root.path, plan.server_of(arm)
    load_on = partial(plan.load_on, arm, set())
    with passing_folder(root, "crash") as notes:
        killed: Killed
        if server.spec.nodes > 1:
            killed = KilledCluster(server, load_on, notes, plan.which_of(arm))
        else:
            replicas = root if plan.spec.replica and not arm.positive_control else None
            killed = KilledServer(server, load_on, notes, afresh=plan.load.runs_once, replicas=replicas)
        with killed:
            yield killed


@contextmanager
def _recorded(plan: CrashPlan, arm: CrashArm, crashes: int, owner: str) -> Iterator[CrashNumbers]:
    began = time.monotonic()
    with _records(plan) as where:
        folder = record_of(plan.keep, owner)
        if folder is not None:
            plan.watcher.say(f"{arm.name}: judging the record that was kept")
            recorded = plan.crash_images_in(folder)
            require_build(folder, recorded.run.build, plan.target.build.id)
        else:
            remove_stumps(plan.keep, owner)
            plan.watcher.say(f"{arm.name}: recording")
            folder = record(
                plan.server_of(arm),
                partial(plan.load_on, arm, set()),
                where,
                owner,
                fault=None if arm.positive_control else _FAULTS.get(plan.spec.failure),
                replica=plan.spec.replica and not arm.positive_control,
            )
            recorded = plan.crash_images_in(folder)
        if not recorded.run.whole:
            but = ", but for the replica" if plan.spec.replica and recorded.received is None else ""
            plan.watcher.warn(f"{arm.name}: its recording was cut short; what there is of it is judged{but}")
        arm = msgspec.structs.replace(
            plan.judged(arm, recorded.run.storage),
            commits_per_s=recorded.run.commits_per_s,
            records=recorded.records,
            fault=recorded.run.fault,
            folder=str(folder) if plan.keep else "",
        )
        points = recorded.points(crashes, plan.spec.seed)
        once = {"record": time.monotonic() - began}

        def crash(numbers: Sequence[int]) -> CrashRows:
            for number, crash in judge_all({number: points[number] for number in numbers}, recorded.judge):
                yield CrashRow(arm=arm, number=number, crash=crash, seconds=dict(once))
                once.clear()

        yield crash


@contextmanager
def _records(plan: CrashPlan) -> Iterator[Path]:
    keep = plan.keep
    if keep is None:
        with passing_folder(plan.target.volume.data_root.path, "recorded", mode=0o711) as folder:
            yield folder
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"no record can be kept in {keep}: {error.strerror}", hint="name another folder"
        ) from error
    yield keep


_SIDE_BY_SIDE = 2
_STRIKE_S = 0.05


def judge_all(
    points: Mapping[int, CrashPoint], judge: Callable[[CrashPoint], Crash]
) -> Iterator[tuple[int, Crash]]:
    """As soon as each is known, by two threads; whoever stops early kills the servers."""
    threads: set[int] = set()
    # The futures are not waited for: a Ctrl-C in the midst of that may leave one locked for ever, and the
    # thread that judges waits for the lock. This queue has no lock that an exception could leave behind.
    judged = SimpleQueue[tuple[int, Crash] | BaseException]()

    def judge_one(number: int, at: CrashPoint) -> None:
        try:
            judged.put((number, judge(at)))
        except BaseException as error:  # noqa: BLE001, raised again where it is waited for
            judged.put(error)

    with ThreadPoolExecutor(_SIDE_BY_SIDE, initializer=lambda: threads.add(get_ident())) as pool:
        waiting: list[Future[None]] = []
        try:
            for number, at in points.items():
                waiting.append(pool.submit(judge_one, number, at))
            for _ in waiting:
                found = judged.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            Thread(target=_strike_until, args=(threads, waiting), daemon=True).start()
            pool.shutdown()
            raise


def _strike_until(threads: Collection[int], judged: Sequence[Future[None]]) -> None:
    while not all(one.done() for one in judged):
        strike(threads)
        time.sleep(_STRIKE_S)


@contextmanager
def crash_on_machine(request: CrashRequest, composed: Composed, progress: Progress) -> Iterator[RunCrashes]:
    load = load_of(request)
    require_disk(request.spec)
    with open_servers(request.spec.server, request.spec.storage, progress) as target:
        require_same_build(request, target.settings.key)
        here = CrashPlan(target=target, watcher=Watcher(progress), load=load, spec=request.spec)
        with CrashRunner(here, here.experiment(request.planned)) as runner:
            yield runner.crash
