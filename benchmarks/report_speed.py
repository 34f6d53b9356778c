"""How long does `flushlab report` take when 10,000 trials are stored?

Run by `make bench`:

    .venv/bin/python benchmarks/report_speed.py

The store is made for the purpose, with records as real trials leave them: one series of about 8,000
trials and 40 tunings of 48. The command runs as users run it, so Python's start and the imports count. CPU
time is shown too, as wall time means little on a busy machine. Exits with 1 if the list or the page takes
2 s or more (the median wall time), or the page is not below 1.5 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.records import MARIADB
from tests.unit.report import campaigns as made

from flushlab.campaign.facts import ArmResult
from flushlab.record import Trial
from flushlab.settings.catalog import load_catalog
from flushlab.store import Store

LIMIT_S = 2.0
LIMIT_BYTES = 1_500_000
ARMS = 18
COUNTERS = ("Bytes_received", "Handler_commit", "Innodb_data_fsyncs", "Innodb_os_log_written")


def full_size(trial: Trial) -> Trial:
    """The trial with as many settings and counters as a server reads back."""
    catalog = load_catalog()
    names = catalog.names("mariadb", MARIADB.version)
    known = {name: here.default for name in names if (here := catalog.here(name, "mariadb", MARIADB.version))}
    deltas = {f"{counter}_{n}": 123_456_789 for n in range(7) for counter in COUNTERS}
    return msgspec.structs.replace(trial, settings={**known, **trial.settings}, deltas=deltas)


def fill(path: Path, *, blocks: int, tunings: int) -> int:
    """Fills a store and says how many trials it has."""
    names = [f"arm {n}" for n in range(ARMS)]
    figures = {
        "base": 9_800.0,
        "control": 9_700.0,
        **{name: 9_000.0 + 100 * n for n, name in enumerate(names)},
    }
    arms = tuple(
        ArmResult(
            name=name,
            outcome="measured",
            changes={"sync_binlog": n},
            comparison=made.comparison(name, made.ratio(1 + n / 20, 0.97 + n / 20, 1.03 + n / 20)),
        )
        for n, name in enumerate(names)
    )
    count = 0
    with Store(path) as store:
        store._connection.execute("PRAGMA synchronous = OFF")  # nothing here needs to survive
        for number in range(tunings):
            row = made.row("tune", made.tune_facts())
            trials = [full_size(trial) for trial in made.trials_of(made.TUNE_ARMS, "confirm", blocks=12)]
            count += save(store, f"tune-{number}", "tune", row.plan, row.result, trials)
        row = made.row("series", made.series_facts(arms=arms))
        trials = [full_size(trial) for trial in made.trials_of(figures, "arms", blocks=blocks)]
        count += save(store, "series-1", "series", row.plan, row.result, trials)
    return count


def save(
    store: Store, campaign: str, kind: str, plan: bytes, result: bytes | None, trials: list[Trial]
) -> int:
    """Saves a finished campaign."""
    store.create_campaign(campaign, kind, plan)
    for trial in trials:
        store.save(campaign, trial)
    store.set_state(campaign, "done", result)
    return len(trials)


def seconds(home: Path, *words: str) -> tuple[float, float]:
    """Wall and CPU time of one `flushlab report`."""
    start, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-m", "flushlab", "report", *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "FLUSHLAB_HOME": str(home)},
    )
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - start, cpu


def main() -> int:
    """Makes the store, times both commands, prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, page = Path(folder), Path(folder) / "page.html"
        trials = fill(home / "store.sqlite", blocks=404, tunings=40)
        commands = {"list": ("--list",), "page": ("series-1", "--html", str(page))}
        for words in commands.values():
            seconds(home, *words)  # compiles modules, lets matplotlib find the fonts
        times = {}
        for name, words in commands.items():
            runs = [seconds(home, *words) for _ in range(given.repeats)]
            times[name] = {
                "wall": statistics.median(wall for wall, _ in runs),
                "cpu": statistics.median(cpu for _, cpu in runs),
            }
        size = page.stat().st_size
    say = [f"{trials:,} trials, median of {given.repeats}"]
    for name, took in times.items():
        say.append(f"  {name}: {took['wall']:.2f} s, {took['cpu']:.2f} s of CPU (limit {LIMIT_S:g} s)")
    say.append(f"  page: {size / 1000:,.0f} kB (limit {LIMIT_BYTES / 1000:,.0f} kB)")
    sys.stdout.write("\n".join(say) + "\n")
    if given.json:
        given.json.write_text(json.dumps({"trials": trials, "seconds": times, "page_bytes": size}) + "\n")
    slow = any(took["wall"] >= LIMIT_S for took in times.values())
    return int(slow or size >= LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main())
