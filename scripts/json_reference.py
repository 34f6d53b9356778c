"""Makes the pages of JSON documents in docs/reference from the docstrings of the documents' structs.

.venv/bin/python scripts/json_reference.py    # writes the files; tests hold them to be up to date
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from flushlab.bulk.filled import Filled
from flushlab.report.bench import BenchDocument, FleetBenchDocument
from flushlab.report.campaign import CampaignDocument
from flushlab.report.crash import CrashDocument
from flushlab.report.doctor import DoctorDocument
from flushlab.report.forecast import ForecastDocument
from flushlab.report.probe import ProbeDocument

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

CAMPAIGN = """# JSON of `flushlab tune`, `series` and `compare`

Made from the docstrings of the structs by `scripts/json_reference.py`; do not edit it here.

`--json FILE` (`-` for stdout) writes one document; `--out DIR` and `flushlab report ID --json FILE` write the
same document. Its `schema` is `flushlab.campaign/1`. Python has the same value: `flushlab.tune(…)`,
`series(…)` and `compare(…)` return `CampaignFacts`. Within it, fields may be added but are never renamed or
removed. With `--dry-run`, the document is a [`flushlab.forecast/1`](#forecastdocument). `[]` marks a list.

Exit codes:

- 0: the campaign ended, whatever its result.
- 1: `tune --crash`: a winner or the base broke the floor, or the winner could not be crashed.
- 2: usage.
- 3: server.
- 4: measurement (the base yields no result).
- 5: storage.
- 6: harness.
- 130: after Ctrl-C; the document has the claims proven so far.
"""

BENCH = """# JSON of `flushlab bench`

Made from the docstrings of the structs by `scripts/json_reference.py`; do not edit it here.

`--json FILE` (`-` for stdout) writes one document. Its `schema` is `flushlab.bench/1`. Python has the same
value: `flushlab.bench(…)` returns a `Trial`. With `--fleet`, every machine runs: the `schema` is
`flushlab.fleet-bench/1`, and `flushlab.bench_on_fleet(…)` returns a `FleetBench`. Within the schema, fields
may be added but are never renamed or removed. `[]` marks a list.

Exit codes:

- 0: a valid result.
- 2: usage.
- 3: server.
- 4: measurement (nothing was measured, or other load disturbed the window: `outcome` is `discarded`).
- 5: storage.
- 6: harness.
- 130: after Ctrl-C.
"""

CRASH = """# JSON of `flushlab crash`

Made from the docstrings of the structs by `scripts/json_reference.py`; do not edit it here.

`--json FILE` (`-` for stdout), or `flushlab report ID --json FILE` for a stored campaign, writes one document.
Its `schema` is `flushlab.crash/1`. Python has the same facts: `flushlab.crash(…)` returns `CrashFacts`. Within
the schema, fields may be added but are never renamed or removed. `[]` marks a list.

## Outcomes

| outcome | meaning |
|---|---|
| `kept` | every commit that was acknowledged before the crash is there |
| `sound` | without an acknowledgement table: the server starts, and again after another kill, and `CHECK TABLE` finds all tables sound |
| `lost` | the last commits of a connection are missing, and all before them are there; also commits that recovery had brought back and that are gone after another kill and start |
| `inconsistent` | the nodes differ; a gap; half a transaction; a commit that the load did not ask for. Or a table is unreadable, or damaged by `CHECK TABLE`'s verdict. Or rows appear only after another kill and start |
| `not_started` | the server does not start on the data that were left; `reasons` has its messages |
| `unknown` | flushlab could not judge: memory, space or a port was missing, or a time limit was reached; a warning says why. If it could judge no crash of any arm, it exits with 4 |
"""  # noqa: E501

FILL = """# JSON of `flushlab fill`

Made from the docstrings of the structs by `scripts/json_reference.py`; do not edit it here.

`--json FILE` (`-` for stdout) writes one document. Its `schema` is `flushlab.fill/1`. Python has the same
value: `flushlab.fill(…)` returns a `Filled`. Within the schema, fields may be added but are never renamed or
removed. `[]` marks a list.
"""

PROBE = """# JSON of `flushlab probe`

Made from the docstrings of the structs by `scripts/json_reference.py`; do not edit it here.

`--json FILE` (`-` for stdout), or `flushlab report ID --json FILE` for a stored probe, writes one document.
Its `schema` is `flushlab.probe/1`. Within it, fields may be added but are never renamed or removed. `[]`
marks a list.

Exit codes:

- 0: success.
- 2: usage (a `--trx-commit` that contradicts itself).
- 3: server (`--server`).
- 4: measurement.
- 5: storage (the directory is missing, not writable, too small, or filled up).
- 130: after Ctrl-C.

## Caveats

| slug | meaning |
|---|---|
| `fsync-too-fast` | an fdatasync is faster than any medium, so it does not reach one |
| `flush-is-free` | the disk reports a volatile cache, but flushing it costs nothing |
| `in-memory` | the directory is in memory: fsync does nothing |
| `no-barrier` | mounted so that fsync does not flush the device's cache |
| `overlay-volatile` | an overlay mounted `volatile`: its fsync does nothing |
| `other-machine` | a network file system: another machine decides what a sync does |
| `one-cpu` | only one processor: nothing can run in parallel |
| `cut-short` | the disk is so slow that some measurements were skipped |
| `short-window` | windows under a second (`--window`) of sync settings that sync once a second |
| `disturbed` | the hypervisor or other programs took more than a tenth of the CPU time |
| `no-binlog` | the measured server writes no binlog, the ceiling does |
| `other-disk` | the measured server was on another file system or device |
| `client-bound` | the measured rate is the client's limit |
"""

DOCTOR = """# JSON of `flushlab doctor`

Made from the docstrings of the structs by `scripts/json_reference.py`; do not edit it here.

`--json FILE` (`-` for stdout) writes one document. Its `schema` is `flushlab.doctor/1`. Within the schema,
fields may be added but are never renamed or removed. `[]` marks a list. In Python, `flushlab.doctor(…)`
returns a `Diagnosis`, from which the document is made.

Exit codes:

- 0: the server was watched, whatever was found.
- 2: usage.
- 3: server (not reached, or gone before there was anything to judge).
- 4: measurement (too few answers).
- 5: storage.
- 130: after Ctrl-C; the document has what was seen until then.
"""

PAGES: Mapping[str, tuple[str, tuple[type[msgspec.Struct], ...]]] = {
    "campaign-json.md": (CAMPAIGN, (CampaignDocument, ForecastDocument)),
    "bench-json.md": (BENCH, (BenchDocument, FleetBenchDocument)),
    "crash-json.md": (CRASH, (CrashDocument,)),
    "probe-json.md": (PROBE, (ProbeDocument,)),
    "fill-json.md": (FILL, (Filled,)),
    "doctor-json.md": (DOCTOR, (DoctorDocument,)),
}
"""Head of each page, and the documents that it begins with."""

_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*)$")
_PYTHON = {"None": "null", "True": "true", "False": "false"}


def render(name: str) -> str:
    """A whole page."""
    head, documents = PAGES[name]
    waiting, parts, known = list(documents), [head], set(documents)
    while waiting:
        struct = waiting.pop(0)
        parts.append(_section(struct))
        found = [one for one in _structs(struct) if one not in known]
        known |= set(found)
        waiting += dict.fromkeys(found)
    return "\n".join(parts)


def _structs(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Types of fields that are documented by themselves."""
    hints = get_type_hints(struct)
    for name in struct.__struct_fields__:
        yield from _named(hints[name])


def _named(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from _named(part)


def _section(struct: type[msgspec.Struct]) -> str:
    about, meanings = "", dict[str, str]()
    for one in reversed(struct.__mro__):
        if one is not msgspec.Struct and issubclass(one, msgspec.Struct):
            about, own = _documented(one)
            meanings |= own
    fields = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    hints = get_type_hints(struct)
    lines = [f"## {struct.__name__}", "", about, "", "| field | meaning |", "|---|---|"]
    if struct.__struct_config__.tag is not None:
        lines.append(f"| `schema` | `{struct.__struct_config__.tag}` |")
    for name, key in fields.items():
        many = "[]" if str(hints[name]).startswith("tuple") else ""
        lines.append(
            f"| `{key}{many}` | {'; '.join(filter(None, (meanings.get(name, ''), _links(hints[name]))))} |"
        )
    return "\n".join(lines) + "\n"


def _links(hint: Any) -> str:
    names = dict.fromkeys(one.__name__ for one in _named(hint))
    return ", ".join(f"[{name}](#{name.lower()})" for name in names)


def _documented(struct: type[msgspec.Struct]) -> tuple[str, dict[str, str]]:
    """What a docstring says of a struct, and of each field."""
    about, _, attributes = inspect.cleandoc(struct.__doc__ or "").partition("\nAttributes:\n")
    meanings, names = dict[str, str](), list[str]()
    for line in attributes.splitlines():
        if found := _ENTRY.match(line):
            names = found[1].split(", ")
            meanings |= dict.fromkeys(names, _json(found[2]))
        elif line.strip():
            meanings |= {name: f"{meanings[name]} {_json(line.strip())}" for name in names}
    return _json(about.strip()), {name: text.removesuffix(".") for name, text in meanings.items()}


def _json(text: str) -> str:
    """As JSON calls it."""
    text = re.sub(r"\b(None|True|False)\b", lambda found: _PYTHON[found[0]], text)
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for name in PAGES:
        (FOLDER / name).write_text(render(name))
