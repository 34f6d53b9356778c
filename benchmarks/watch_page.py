"""The page of `flushlab watch` in headless Chromium: first paint, long tasks, and what axe-core finds.

    python benchmarks/watch_page.py [--part speed|axe] [--loads 5] [--axe FILE]

Speed: an hour of seconds in twelve plots is loaded anew and again, then scrolled over, pointed at and read by
keyboard while samples come. Of each task of the page's main thread Chromium's tracing gives the time and the
CPU time; the first is longer where the machine is busy, so the second is judged. Axe: the page in two widths
and both colour schemes, in the states that it can be in, all tables open. axe-core comes from npm unless
--axe names it. Exits with 1 if the first paint takes over a second, a task over 100 ms of CPU time, or if
anything serious is found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests.chromium

from programs import needs, say
from tests.chromium import Chromium
from tests.watch_feed import Feed, gone, sample

NOW = 1_761_234_600.0
HOUR = 3600
FIRST_PAINT_MS, LONG_MS = 1000, 100
AXE = "axe-core@4.11"
SERIOUS = ("serious", "critical")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
LIVE = "document.getElementById('state').textContent === 'live'"


class Traced(Chromium):
    """A Chromium whose main thread's tasks can be traced."""

    def __init__(self, home: Path) -> None:
        self._events: list[dict[str, Any]] = []
        self._traced = True
        super().__init__(home)

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Tracing.dataCollected":
            self._events += message["params"]["value"]
        elif message.get("method") == "Tracing.tracingComplete":
            self._traced = True
        super()._note(message)

    @contextmanager
    def tracing(self, found: list[tuple[float, float, str]]) -> Iterator[None]:
        """Adds each task of over 20 ms of the page's main thread: its time, CPU time, what it did."""
        self._events.clear()
        categories = "toplevel,devtools.timeline,disabled-by-default-devtools.timeline,v8"
        self._ask("Tracing.start", categories=categories, transferMode="ReportEvents")
        yield
        self._traced = False
        self._ask("Tracing.end")
        while not self._traced:
            for message in self._messages(1.0):
                self._note(message)
        found += long_tasks(self._events)


def long_tasks(events: list[dict[str, Any]]) -> Iterator[tuple[float, float, str]]:
    """Tasks of over 20 ms, with the longest event within each."""
    pages = {
        (one["pid"], one["tid"])
        for one in events
        if one.get("name") == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    ours = [one for one in events if one.get("ph") == "X" and (one["pid"], one["tid"]) in pages]
    for task in ours:
        if task["name"] != "RunTask" or task["dur"] < 20_000:
            continue
        end = task["ts"] + task["dur"]
        within = [
            one
            for one in ours
            if task["ts"] <= one["ts"] < end
            and one is not task
            and not one["name"].endswith("RunTask")
            and not one["name"].startswith("v8.")
        ]
        within.sort(key=lambda one: -one.get("dur", 0))
        did = ", ".join(f"{called(one)} {one.get('dur', 0) / 1000:.0f}" for one in within[:4])
        yield task["dur"] / 1000, task.get("tdur", 0) / 1000, did


def called(event: dict[str, Any]) -> str:
    """An event's name, and the script's function that it called."""
    data = event.get("args", {}).get("data", {})
    return f"{event['name']} {data['functionName']}()" if data.get("functionName") else str(event["name"])


def speed(loads: int) -> bool:
    """Whether the page is fast enough."""
    tasks: list[tuple[float, float, str]] = []
    paints: list[float] = []
    samples = [sample(NOW - HOUR + second) for second in range(HOUR)]
    with (
        Feed(samples) as feed,
        tempfile.TemporaryDirectory() as home,
        Traced(Path(home)) as page,
    ):
        for _ in range(loads):
            page.open("about:blank")
            with page.tracing(tasks):
                page.open(feed.url)
                page.until(LIVE)
                page.until("document.querySelectorAll('#grid canvas').length >= 6")
            paints.append(float(page.until(PAINT)))
        with page.tracing(tasks):
            page.run("document.querySelector('input[value=\"3600\"]').click()")
            deep = int(page.run("document.documentElement.scrollHeight"))
            for step in range(40):
                if step % 8 == 0:  # about once a second
                    feed.push(sample(NOW + step))
                page.run(f"scrollTo({{top: {step * deep // 40}, behavior: 'instant'}})")
                for point in range(5):
                    page.move(200 + 37 * point, 400 + point)
                time.sleep(0.1)
            page.run("document.querySelector('[role=slider]').focus()")
            page.key("ArrowLeft", times=10)
            page.key(" ")
    slow = sorted((one for one in tasks if one[0] > LONG_MS), reverse=True)
    longest = max(tasks, default=(0.0, 0.0, "nothing over 20 ms"))
    load = Path("/proc/loadavg").read_text().split()[0]
    say(f"first paint after {', '.join(f'{one:.0f}' for one in paints)} ms; load average {load}")
    say(
        f"{len(slow)} tasks over {LONG_MS} ms; the longest {longest[0]:.0f} ms, {longest[1]:.0f} ms of"
        f" CPU: {longest[2]}"
    )
    for duration, cpu, did in slow[1:6]:
        say(f"  {duration:.0f} ms, {cpu:.0f} ms of CPU: {did}")
    busiest = max(tasks, key=lambda one: one[1], default=longest)
    say(f"the most CPU took {busiest[1]:.0f} ms: {busiest[2]}")
    return busiest[1] <= LONG_MS and max(paints) <= FIRST_PAINT_MS


def axe_core(folder: Path) -> str:
    """The script, from npm."""
    needs("npm")
    packed = subprocess.run(
        ["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, check=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def states() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the page can show."""
    fill = {
        "table": "orders",
        "rows": 250_000,
        "total": 1_000_000,
        "rows_per_s": 31_000.0,
        "bytes": 3 << 20,
        "left_s": 24.0,
        "bound_by": "the disk",
    }
    yield "campaign", sample(NOW)
    yield "fill", sample(NOW + 1, fill=fill, running={"kind": "fill"}, ratios=[])
    yield "idle", sample(NOW + 2, running=None, ratios=[], connections=[])
    yield "gone", gone(NOW + 3, NOW + 3)


def accessible(script: str) -> bool:
    """Whether nothing serious is found."""
    found: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as home, Chromium(Path(home)) as page:
        for name, state in states():
            with Feed([sample(NOW - 400 + second) for second in range(400)] + [state]) as feed:
                for width in (400, 1400):
                    for dark in (False, True):
                        page.open(feed.url, width=width, dark=dark)
                        page.until("document.querySelector('#grid canvas') !== null")
                        page.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
                        page.run(script)
                        result = page.run("axe.run().then((all) => JSON.stringify(all.violations))")
                        for one in json.loads(result):
                            places = "; ".join(node["html"][:120] for node in one["nodes"][:3])
                            what = f"{one['impact']}: {one['id']}, {one['help']}: {places}"
                            where = f"{name} {width} {'dark' if dark else 'light'}"
                            found.setdefault(what, set()).add(where)
    serious = [one for one in found if one.startswith(SERIOUS)]
    say(f"axe-core: {len(found)} findings, {len(serious)} of them serious")
    for what, states_of_it in found.items():
        say(f"  {what} ({', '.join(sorted(states_of_it))})")
    return not serious


def main() -> None:
    """Measures and looks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("speed", "axe"))
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--axe", type=Path, help="axe.min.js that is here already")
    given = parser.parse_args()
    if Chromium.found() is None:
        sys.exit("error: no chromium (Debian: apt-get install chromium)")
    good = given.part == "axe" or speed(given.loads)
    if given.part != "speed":
        with tempfile.TemporaryDirectory() as folder:
            good &= accessible(given.axe.read_text() if given.axe else axe_core(Path(folder)))
    sys.exit(not good)


if __name__ == "__main__":
    main()
