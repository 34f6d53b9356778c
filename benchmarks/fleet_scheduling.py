"""A series on four machines against the same on one: its wall time, its verdicts, what a block costs besides.

Run by `make bench`; needs root (a network namespace for each machine), Ray, and no server:

    python benchmarks/fleet_scheduling.py [--machines 4] [--arms 12] [--blocks 8] [--trial 0.5] [--pairs 5]

Trials sleep, with results of known effects: what is measured is the driver, Ray and the transport, not the
machine. Each pair runs the series on the fleet, then in this process without one. Exits with 1 unless

- the verdicts are the same,
- the median efficiency (seconds of one machine / machines / seconds of the fleet) is 0.85 or more,
- the median overhead is at most 0.5 s for a block: what the fleet takes beyond the sleep of the machine that
  has most of it, for each of the blocks that follow each other there.

The time to claim and to open machines is reported besides: it is spent once for a campaign.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from flushlab.campaign import Budget, Watcher, run
from flushlab.campaign.fleet.machines import Opening
from flushlab.campaign.fleet.trials import Arrivals, FleetTrials
from flushlab.campaign.pool.work import Composed, RunTrial
from flushlab.experiment.protocol import Request
from flushlab.experiment.series import Series, SeriesPlan
from flushlab.progress import Progress, silent
from flushlab.record import Arm, Trial
from flushlab.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fleet_testbed import Node, fleet_testbed

LEAST_EFFICIENCY, MOST_OVERHEAD_S = 0.85, 0.5
NOISE = 0.01
EFFECTS = (1.5, 0.7, 1.0)
"""Of the arms, in turns."""


class Run(NamedTuple):
    """One run of the series.

    Attributes:
        seconds: from the first question to the last record.
        before_s: until the machines were claimed and open.
        verdicts: by arm.
        by_machine: blocks of arms and of `best` on each machine.
    """

    seconds: float
    before_s: float
    verdicts: dict[str, str]
    by_machine: dict[str, int]


def series(arms: int, blocks: int) -> Series:
    """The experiment."""
    return Series(
        SeriesPlan(
            base=Arm(name="base", settings={}),
            arms=tuple(
                Arm(name=f"a{number}", settings={"innodb_io_capacity": number}) for number in range(arms)
            ),
            blocks=blocks,
            compose=lambda names: Arm(name="best", settings={"innodb_io_capacity": 1000 + len(names)}),
        )
    )


def slept(request: Request, seconds: float) -> Trial:
    """A trial that sleeps; its noise depends on the cell alone."""
    arm = request.arm.name
    time.sleep(seconds)
    effect = EFFECTS[int(arm[1:]) % len(EFFECTS)] if arm[1:].isdecimal() else 1.5 if arm == "best" else 1.0
    noise = Random(f"{request.stage}/{request.block}/{arm}").gauss(0.0, NOISE)
    return Trial(
        arm=request.arm,
        stage=request.stage,
        block=request.block,
        variant=request.variant,
        outcome="measured",
        result=1000.0 * effect * math.exp(noise),
        seconds={"run": seconds},
    )


@contextmanager
def sleeping(seconds: float, request: None, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    """What runs trials on a machine of the fleet: with the seconds, an `Enter`."""
    yield lambda request: slept(request, seconds)


def carried_out(experiment: Series, run_trial: RunTrial, store: Store, before_s: float) -> Run:
    """Runs the series in the loop of every campaign."""
    began = time.monotonic()
    run(
        experiment,
        run_trial,
        known=store.trials,
        store=store,
        campaign_id="c",
        budget=Budget(),
        watcher=Watcher(),
    )
    seconds = time.monotonic() - began
    blocks = {(one.stage, one.block): one.machine for one in store.trials("c")}
    places = list(blocks.values())
    verdicts: dict[str, str] = {name: one.verdict for name, one in experiment.result().comparisons.items()}
    return Run(seconds, before_s, verdicts, {name: places.count(name) for name in sorted(set(places))})


@contextmanager
def fresh_store() -> Iterator[Store]:
    """A store with one campaign."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.sqlite")
        store.create_campaign("c", "series", b"{}")
        yield store
        store.close()


def on_fleet(address: str, asked: argparse.Namespace) -> Run:
    """The series on all machines; runs in the namespace of one of them."""
    from flushlab.fleet.connect import connected, parse_address

    began = time.monotonic()
    with connected(parse_address(address)):
        from flushlab.campaign.fleet.ray_machines import claimed

        with claimed(silent) as opened, fresh_store() as store:
            experiment = series(asked.arms, asked.blocks)
            names = opened.machines.open(Opening(partial(sleeping, asked.trial)))
            runner = FleetTrials(
                machines=opened.machines,
                names=names,
                ahead=experiment.ahead,
                arrivals=Arrivals(store, "c"),
                watcher=Watcher(),
                best_of=lambda: experiment.best_of,
            )
            return carried_out(experiment, runner.run, store, time.monotonic() - began)


def alone(asked: argparse.Namespace) -> Run:
    """The series without a fleet."""
    with fresh_store() as store:
        return carried_out(
            series(asked.arms, asked.blocks), lambda request: slept(request, asked.trial), store, 0.0
        )


def overhead_s(fleet: Run, asked: argparse.Namespace) -> float:
    """Of a block: what the fleet took beyond the sleep of as many blocks as must follow each other."""
    waves: int = math.ceil(asked.blocks / asked.machines)
    stages = 2 if "best" in fleet.verdicts else 1
    trial_s: float = asked.trial
    cells: int = 2 + asked.arms + (3 if stages == 2 else 0)
    return (fleet.seconds - waves * trial_s * cells) / (waves * stages)


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Runs the pairs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--arms", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--trial", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--drive", metavar="ADDRESS", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive is not None:
        say(json.dumps(on_fleet(asked.drive, asked)))
        return 0
    efficiencies, overheads, differ = [], [], 0
    for fleet, one in _pairs(asked):
        efficiencies.append(one.seconds / asked.machines / fleet.seconds)
        overheads.append(overhead_s(fleet, asked))
        differ += fleet.verdicts != one.verdicts
        verdicts = "same" if fleet.verdicts == one.verdicts else "DIFFER"
        say(
            f"{asked.machines} machines {fleet.seconds:.1f} s ({fleet.before_s:.1f} s before), one"
            f" {one.seconds:.1f} s; efficiency {efficiencies[-1]:.3f}, {overheads[-1]:.3f} s besides for a"
            f" block; blocks {fleet.by_machine}; verdicts {verdicts}"
        )
    efficiency, overhead = median(efficiencies), median(overheads)
    say(
        f"median efficiency {efficiency:.3f} ({min(efficiencies):.3f} to {max(efficiencies):.3f}), overhead"
        f" {overhead:.3f} s for a block ({min(overheads):.3f} to {max(overheads):.3f})"
    )
    return int(differ > 0 or efficiency < LEAST_EFFICIENCY or overhead > MOST_OVERHEAD_S)


def _pairs(asked: argparse.Namespace) -> Iterator[tuple[Run, Run]]:
    with running(asked.machines) as (first, *_):
        for _ in range(asked.pairs):
            yield driven(first, asked), alone(asked)


def driven(node: Node, asked: argparse.Namespace) -> Run:
    """The series on the fleet of a machine, which drives it."""
    given = [f"--{name}={getattr(asked, name)}" for name in ("machines", "arms", "blocks", "trial")]
    return Run(*json.loads(last_line(node, __file__, *given)))


def last_line(node: Node, program: str, *words: str) -> str:
    """What a program prints last, run on a machine of a fleet with the fleet's address."""
    done = node.run(sys.executable, program, "--drive", f"{node.address}:9377", *words, timeout_s=600.0)
    if done.returncode:
        raise RuntimeError(f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout.splitlines()[-1]


@contextmanager
def running(count: int, cpus: float | None = None) -> Iterator[Sequence[Node]]:
    """So many machines of `cpus` each, joined to a fleet; the first one is its head."""
    with fleet_testbed(count, cpus=cpus) as nodes:
        first, *others = nodes
        first.start_fleet(first.name)
        for node in others:
            node.join_fleet(first, node.name)
        try:
            yield nodes
        finally:
            first.flushlab("fleet", "stop")


if __name__ == "__main__":
    raise SystemExit(main())
