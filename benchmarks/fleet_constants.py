"""What a fleet costs besides its servers: the constants of docs/explanation/fleet-scale.md, and a check.

Run by `make bench`; needs root (a network namespace for each machine), Ray, and MariaDB:

    python benchmarks/fleet_constants.py [--part constants|driver|content|check] [--json FILE]

- `constants`: two machines; opening them, their idle traffic, blocks of trials of no length with the record
  of a real trial, the memory of Ray's processes.
- `driver`: the driver alone, with threads in place of machines: its CPU and its wall time for a block, with
  1, 10 and 100 machines.
- `content`: a build and a snapshot, compressed; chunks of 4 MiB through Ray's object store to three machines,
  at once and one after the other.
- `check`: the wall time of a series on two and on four machines, as the constants predict it.

No figure fails this program; it exits with 1 if a prediction is off by more than a tenth.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fleet_scheduling as scheduling
import msgspec
import zstandard
from fleet_scheduling import fresh_store, last_line, running, say, series, slept
from tests.fakes.machines import ThreadMachines
from tests.fleet_testbed import Node

from flushlab.build import survey
from flushlab.campaign import Budget, Watcher, run
from flushlab.campaign.fleet.machines import Machines, Opening, Task
from flushlab.campaign.fleet.trials import Arrivals, FleetTrials
from flushlab.campaign.fleet.worker import trials_of
from flushlab.campaign.pool.work import Composed, RunTrial
from flushlab.experiment.protocol import Request
from flushlab.fleet.transfer import LEVEL, PIECE_BYTES
from flushlab.progress import Progress, silent
from flushlab.record import Trial
from flushlab.store import Store

ARMS = 12
CELLS = 2 + ARMS
"""Of a block: base, control, arms."""
CELLS_OF_BEST = 3
CHUNK = PIECE_BYTES
CHUNKS = 24
"""They fit into the object store twice."""
IDLE_S = 10.0
OFF = 0.1
PARTS = ("constants", "driver", "content", "check")


class Constant(NamedTuple):
    """A figure with its unit."""

    name: str
    value: float
    unit: str


# -- on the machine that drives


@contextmanager
def carrying(plan: bytes, request: None, composed: Composed, progress: Progress) -> Iterator[RunTrial]:
    """What runs trials on a machine of the fleet: the record of a real trial after a sleep."""
    given = json.loads(plan)
    record = msgspec.convert(given["trial"], type=Trial)
    yield lambda request: carried(request, given["seconds"], record)


def carried(request: Request, seconds: float, record: Trial) -> Trial:
    """A trial of known effects with all that a real one records."""
    known = slept(request, seconds)
    return msgspec.structs.replace(
        record,
        arm=known.arm,
        stage=known.stage,
        block=known.block,
        variant=known.variant,
        outcome=known.outcome,
        result=known.result,
    )


def traffic() -> int:
    """Bytes that this machine has sent and received."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "eth0":
            words = rest.split()
            return int(words[0]) + int(words[8])
    raise RuntimeError("no eth0: not a machine of the testbed")


def sent() -> int:
    """Bytes that this machine has sent."""
    (line,) = [one for one in Path("/proc/net/dev").read_text().splitlines() if "eth0:" in one]
    return int(line.partition(":")[2].split()[8])


def memory() -> dict[str, int]:
    """Bytes (PSS) of the processes of each role, on the machines of the testbed together, by home."""
    root, found = Path(os.environ["FLUSHLAB_HOME"]).parent, defaultdict[str, int](int)
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if (
                not entry.name.isdigit()
                or f"FLUSHLAB_HOME={root}/".encode() not in (entry / "environ").read_bytes()
            ):
                continue
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            pss = next(
                line for line in (entry / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:")
            )
            found[role(words)] += int(pss.split()[1]) << 10
    return dict(found)


def role(words: str) -> str:
    """What a process is, by its command line."""
    for name, part in (
        ("driver", "fleet_constants"),
        ("worker", "ray::Worker"),
        ("idle workers", "ray::IDLE"),
        ("agents", "Agent"),
        ("head", "gcs_server"),
        ("head", "dashboard/dashboard"),
        ("keeper", "keeper_main"),
        ("node", "raylet/raylet"),
        ("ray start", "ray.scripts"),
    ):
        if part in words:
            return name
    return "other"


def on_fleet(address: str, trial: dict[str, Any]) -> list[Constant]:
    """The constants of opening, idling and blocks, on this fleet."""
    from flushlab.fleet.connect import connected, parse_address

    before, times = traffic(), [time.monotonic()]
    with connected(parse_address(address)):
        from flushlab.campaign.fleet.ray_machines import claimed

        times.append(time.monotonic())
        with claimed(silent) as opened:
            times.append(time.monotonic())
            plan = msgspec.json.encode({"seconds": 0.0, "trial": trial})
            names = opened.machines.open(Opening(partial(carrying, plan)))
            times.append(time.monotonic())
            opening = traffic() - before
            used = memory()
            idle = _cost(lambda: time.sleep(IDLE_S))
            blocks = 48
            work = _cost(lambda: _driven(opened.machines, names, blocks))
    waves = math.ceil(blocks / len(names)) * 2
    count = len(names)
    return [
        *(
            Constant(name, after - at, "s")
            for name, at, after in zip(
                ("connecting", "starting a worker on each machine", "opening a campaign without servers"),
                times,
                times[1:],
                strict=False,
            )
        ),
        Constant("opening, traffic of a machine", opening / (count - 1), "B"),
        Constant("idle traffic of a machine", idle[2] / IDLE_S / (count - 1), "B/s"),
        Constant("idle CPU of the driver", idle[1] / IDLE_S, "s/s"),
        Constant("time besides for a block", work[0] / waves, "s"),
        Constant("CPU of the driver for a block, with Ray", work[1] / (2 * blocks), "s"),
        Constant("traffic of a block that ran elsewhere", 2 * work[2] / (2 * blocks), "B"),
        *(Constant(f"memory of the {one}", used.pop(one), "B") for one in ("head", "driver")),
        *(Constant(f"memory on a machine: {one}", size / count, "B") for one, size in sorted(used.items())),
    ]


def _cost(what: Callable[[], object]) -> tuple[float, float, int]:
    """Wall time, CPU time of this process, traffic."""
    began, cpu, before = time.monotonic(), time.process_time(), traffic()
    what()
    return time.monotonic() - began, time.process_time() - cpu, traffic() - before


def _driven(machines: Machines, names: Sequence[str], blocks: int) -> None:
    """A series with arms that bring a gain, and as many blocks of the best combination."""
    experiment = series(ARMS, blocks)
    with fresh_store() as store:
        runner = FleetTrials(
            machines=machines,
            names=names,
            ahead=experiment.ahead,
            arrivals=Arrivals(store, "c"),
            watcher=Watcher(),
            best_of=lambda: experiment.best_of,
        )
        run(
            experiment,
            runner.run,
            known=store.trials,
            store=store,
            campaign_id="c",
            budget=Budget(),
            watcher=Watcher(),
        )


class Fetcher:
    """Gets objects on a machine."""

    def fetch(self, references: Sequence[Any]) -> int:
        """Bytes of these objects, which are here then."""
        import ray

        return sum(len(one) for one in ray.get(list(references)))

    def sent(self) -> int:
        """Bytes that this machine has sent."""
        return sent()


def objects(address: str) -> list[Constant]:
    """Chunks through the object store, to all other machines."""
    from flushlab.fleet.connect import connected, parse_address

    with connected(parse_address(address)):
        import ray

        from flushlab.campaign.fleet.ray_workers import nodes, worker_on

        here = str(ray.get_runtime_context().get_node_id())
        fetchers: list[Any] = [worker_on(one.id, Fetcher) for one in nodes() if one.id != here]
        ray.get([one.sent.remote() for one in fetchers])
        found = list[Constant]()
        for name, at_once in (("at once", True), ("one after the other", False)):
            content = [os.urandom(CHUNK) for _ in range(CHUNKS)]
            began = time.monotonic()
            references = [ray.put(one) for one in content]
            put_s = time.monotonic() - began
            if at_once:
                found.append(Constant("put into the store here", CHUNKS * CHUNK / put_s, "B/s"))
                began = time.monotonic()
                for one in references:
                    ray.get(one)
                found.append(
                    Constant("get from the store here", CHUNKS * CHUNK / (time.monotonic() - began), "B/s")
                )
            before, began = sent(), time.monotonic()
            calls = list[Any]()
            for one in fetchers:
                calls.append(one.fetch.remote(references))
                if not at_once:
                    ray.get(calls[-1])
            got = sum(ray.get(calls))
            seconds = time.monotonic() - began
            found += [
                Constant(f"to {len(fetchers)} machines {name}", got / seconds, "B/s"),
                Constant(f"share that the driver's machine sent, {name}", (sent() - before) / got, ""),
            ]
            del references, content
            time.sleep(2.0)
    return found


# -- here


def real_trials(node: Node) -> list[Trial]:
    """Trials of a comparison of MariaDB on the fleet of a machine, which keeps its snapshot."""
    done = node.flushlab(
        *("compare", "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2"),
        *("--server", "mariadb@10.11", "--blocks", "2", "--duration", "8", "--fleet", node.address),
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    with Store.existing(node.home / "store.sqlite") as store:
        return [trial for row in store.campaigns() for trial in store.trials(row.id)]


def of_driver(record: Trial) -> list[Constant]:
    """The driver alone: what the loop's thread takes for a block."""
    found = list[Constant]()
    for count in (1, 10, 100):
        blocks = 200
        machines = ThreadMachines(
            [f"m{number}" for number in range(count)], lambda _, task: _at_once(task, record)
        )
        began, cpu = time.monotonic(), time.thread_time()
        _driven(machines, machines.open(Opening(partial(carrying, b""))), blocks)
        found += [
            Constant(
                f"CPU of the loop for a block, {count} machines",
                (time.thread_time() - cpu) / (2 * blocks),
                "s",
            ),
            Constant(
                f"wall time of the loop for a block, {count} machines",
                (time.monotonic() - began) / (2 * blocks),
                "s",
            ),
        ]
    return found


def _at_once(task: Task, record: Trial) -> list[Trial]:
    return trials_of(task, lambda request: carried(request, 0.0, record))


def of_content(name: str, folder: Path) -> list[Constant]:
    """Size, ratio and rates of a folder that is compressed with zstd, level 3, on one thread."""
    size = packed = 0
    pack_s = unpack_s = 0.0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        with path.open("rb") as file:
            while content := file.read(CHUNK):
                began = time.monotonic()
                small = zstandard.ZstdCompressor(level=LEVEL).compress(content)
                pack_s += time.monotonic() - began
                began = time.monotonic()
                zstandard.ZstdDecompressor().decompress(small)
                unpack_s += time.monotonic() - began
                size, packed = size + len(content), packed + len(small)
    return [
        Constant(f"{name}", size, "B"),
        Constant(f"{name}, compressed", packed, "B"),
        Constant(f"{name}, compressing", size / pack_s, "B/s"),
        Constant(f"{name}, decompressing", size / unpack_s, "B/s"),
    ]


def _size(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def predicted_s(machines: int, blocks: int, trial_s: float, besides_s: float) -> float:
    """Wall time of a series: as many rounds as the fullest machine has blocks, then as many of `best`."""
    return math.ceil(blocks / machines) * ((CELLS + CELLS_OF_BEST) * trial_s + 2 * besides_s)


def constants(asked: argparse.Namespace) -> list[Constant]:
    """With two machines; the record of a real trial is kept in `asked`."""
    with running(2) as nodes:
        for node in nodes:
            node.lend_builds()
        trials = real_trials(nodes[0])
        sizes = [len(msgspec.json.encode(one)) for one in trials]
        asked.record = trials[0]
        snapshot = max((nodes[0].home / "snapshots").iterdir(), key=_size)
        found = [Constant("record of a trial, median of a real one", median(sizes), "B")]
        found += of_content("snapshot of 8 × 10,000 rows", snapshot)
        given = msgspec.json.encode(asked.record).decode()
        return found + _read(last_line(nodes[0], __file__, "--part=constants", "--trial", given))


def content(asked: argparse.Namespace) -> list[Constant]:
    """A build, and chunks to three machines."""
    (build,) = [one for one in survey().builds if one.name.startswith("mariadb@10.11")]
    with running(4) as nodes:
        return [
            *of_content(f"build {build.name}", Path(build.prefix)),
            *_read(last_line(nodes[0], __file__, "--part=content")),
        ]


def check(asked: argparse.Namespace, besides_s: float) -> tuple[list[Constant], bool]:
    """Predicted and measured wall time; whether all are within a tenth."""
    found, good = list[Constant](), True
    for machines in (2, 4):
        with running(machines) as nodes:
            given = argparse.Namespace(machines=machines, arms=ARMS, blocks=8, trial=0.5)
            measured = scheduling.driven(nodes[0], given).seconds
        predicted = predicted_s(machines, given.blocks, given.trial, besides_s)
        found += [
            Constant(f"{machines} machines, predicted", predicted, "s"),
            Constant(f"{machines} machines, measured", measured, "s"),
        ]
        good &= abs(measured / predicted - 1) <= OFF
    return found, good


def _read(line: str) -> list[Constant]:
    return [Constant(*one) for one in json.loads(line)]


def shown(one: Constant) -> str:
    """A line of the table."""
    value, unit = one.value, one.unit
    if unit.startswith("B") and value >= 1 << 20:
        value, unit = value / (1 << 20), unit.replace("B", "MiB", 1)
    elif unit.startswith("B") and value >= 1 << 10:
        value, unit = value / (1 << 10), unit.replace("B", "KiB", 1)
    elif unit == "s" and value < 0.1:
        value, unit = value * 1e3, "ms"
    return (
        f"{one.name:<58}{value:>12,.3g} {unit}" if value < 1000 else f"{one.name:<58}{value:>12,.0f} {unit}"
    )


def main() -> int:
    """Measures the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="repeatable; default: all")
    parser.add_argument("--json", type=Path, help="read the figures of earlier parts, and write all")
    parser.add_argument("--drive", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--trial", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.drive is not None:
        here = (
            objects(asked.drive)
            if asked.part == ["content"]
            else on_fleet(asked.drive, json.loads(asked.trial))
        )
        say(json.dumps(here))
        return 0
    known = json.loads(asked.json.read_text()) if asked.json is not None and asked.json.exists() else {}
    good = True
    for part in asked.part or PARTS:
        if part == "constants":
            found = constants(asked)
            known["record"] = msgspec.to_builtins(asked.record)
        elif part == "driver":
            found = of_driver(msgspec.convert(known["record"], type=Trial))
        elif part == "content":
            found = content(asked)
        else:
            (besides_s,) = [value for name, value, _ in known["constants"] if "besides" in name]
            found, good = check(asked, besides_s)
        known[part] = found
        say("\n".join([f"{part}:", *map(shown, found)]))
        if asked.json is not None:
            asked.json.write_text(json.dumps(known, indent=1) + "\n")
    return int(not good)


if __name__ == "__main__":
    raise SystemExit(main())
