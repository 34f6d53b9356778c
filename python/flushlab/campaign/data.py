"""Data: the user's data set as a campaign has it: what it is, and which of its databases the workload uses.

Sits in `campaign`. The data set is opened before anything else. A path that is no data set, or a database
that the data set lacks, is reported before a server is fetched or started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flushlab.campaign.request import ComparingRequest
from flushlab.dataset import Dataset, choose_database, estimated_bytes, open_dataset
from flushlab.errors import UsageError
from flushlab.progress import Progress, silent
from flushlab.record import DataFacts, StandIn, Warning
from flushlab.spec.parts import DataSpec
from flushlab.units import counted, format_size
from flushlab.workload.data import NAME as FROM_DATA
from flushlab.workload.parse import ON_DATA

_WORTH_A_WORD = 256 << 20
_NAMED = 3
"""Names in a warning; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class Data:
    dataset: Dataset
    database: str
    facts: DataFacts


def open_data(data: DataSpec, workloads: Iterable[str], progress: Progress = silent) -> Data | None:
    path, database, names = data.dataset, data.database, dict.fromkeys(workloads)
    if path is None:
        if database is not None:
            raise UsageError("--database needs --dataset", hint="add --dataset PATH")
        if FROM_DATA in names:
            raise UsageError(f"--workload {FROM_DATA} needs --dataset", hint="add --dataset PATH")
        return None
    dataset = open_dataset(path)
    size = sum(file.stat().st_size for file in dataset.files)
    if size >= _WORTH_A_WORD:
        progress(f"reading {dataset.path} ({format_size(size)})")
    needed = database is not None or any(name.startswith(ON_DATA) and name != FROM_DATA for name in names)
    if FROM_DATA in names:
        progress(f"--workload {FROM_DATA} makes a load from your data, which stands in for yours")
        needed |= len(dataset.databases) == 1  # of several it takes them all
    untouched = tuple(name for name in names if not name.startswith(ON_DATA))
    facts = DataFacts(path=dataset.path, kind=dataset.TITLE, size_bytes=size, untouched=untouched)
    for warning in warnings_of(facts):
        progress(f"warning: {warning.text}")
    chosen = choose_database(dataset, database) if needed else ""
    return Data(dataset=dataset, database=chosen, facts=facts)


def warnings_of(data: DataFacts | None, stand_in: StandIn | None = None) -> Iterator[Warning]:
    for name in data.untouched if data is not None else ():
        yield Warning("data-untouched", f"{name} runs on tables of its own: its load does not touch the data")
    if stand_in is None:
        return
    shares = _listed([f"{share:.0%} {kind}s" for kind, share in stand_in.shares.items()])
    tables = _listed([f"{one.name} ({one.rows:,} rows)" for one in stand_in.tables], "table")
    yield Warning(
        "stand-in",
        f"the load is made from your data and stands in for yours: {shares} by primary key, on {tables}."
        " Gains for your own statements may differ",
    )
    skipped, lacking = dict[str, list[str]](), dict[tuple[str, str], list[str]]()
    for table in stand_in.skipped:
        skipped.setdefault(table.why, []).append(table.name)
    for written in stand_in.tables:
        for kind, why in written.without.items():
            lacking.setdefault((kind, why), []).append(written.name)
    left = [f"{_listed(names, 'table')} ({why})" for why, names in skipped.items()]
    if stand_in.smaller:
        left.append(counted(stand_in.smaller, "smaller table"))
    if left:
        yield Warning("not-written", f"the load leaves out {'; '.join(left)}")
    for (kind, why), names in lacking.items():
        yield Warning("not-written", f"no {kind}s on {_listed(names, 'table')}: {why}")


def _listed(words: Sequence[str], noun: str = "") -> str:
    named, more = list(words[:_NAMED]), len(words) - _NAMED
    if more > 0:
        named.append(counted(more, f"more {noun}"))
    return " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]


def bytes_of(data: Data | None) -> int | None:
    return estimated_bytes(data.dataset) if data is not None else None


def data_of(request: ComparingRequest, progress: Progress = silent) -> Data | None:
    asked = request.spec.data
    if asked.dataset is None:
        return None  # the database, if any, is one of somebody's own server
    data = open_data(asked, (request.workload,), progress)
    if data is not None and dict(data.dataset.key) != dict(request.dataset_key):
        raise UsageError(
            f"the data set {asked.dataset} has changed since the campaign began",
            hint="restore it, or start a new campaign: results of two data sets are not comparable",
        )
    return data
