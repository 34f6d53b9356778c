"""Section: what the nodes of a cluster did, per arm. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flushlab.record import NodeActivity, Trial
from flushlab.report.page.parts import MAX_PANELS, Cell, Section, Subject, Table, shown_arms
from flushlab.report.words import small


def section(subject: Subject) -> Iterator[Section]:
    """Replication, conflicts and flow control of each node."""
    rows = tuple(
        row
        for arm in shown_arms(subject)[:MAX_PANELS]
        for row in _rows(subject.named(arm), [trial for trial in subject.arms[arm] if trial.nodes])
    )
    if not rows:
        return
    head = (
        *(Cell("arm"), Cell("node"), Cell("commits", "num"), Cell("received", "num"), Cell("paused", "num")),
        *(Cell("pauses asked", "num"), Cell("queue", "num"), Cell("conflicts lost", "num")),
        Cell("side by side", "num"),
    )
    lead = (
        "What each node told of the windows: transactions of its own clients and write sets it received, the "
        "share of the time that flow control paused writers, how often this node asked for it, how many "
        "write sets waited to be applied, transactions lost to certification or to applied ones, and how "
        "many could have been applied side by side: more appliers than that are idle."
    )
    yield Section("nodes", "Nodes of the cluster", lead, tables=(Table(head, rows),))


def _rows(arm: str, trials: Sequence[Trial]) -> Iterator[tuple[Cell, ...]]:
    """A row per node, over all windows of an arm."""
    count = min((len(trial.nodes) for trial in trials), default=0)
    for number in range(count):
        own = [trial.nodes[number] for trial in trials]
        queues = [node.recv_queue_avg for node in own if node.recv_queue_avg is not None]
        apart = [node.deps_distance for node in own if node.deps_distance is not None]
        yield (
            Cell(arm if number == 0 else "", "name"),
            Cell(str(own[0].node)),
            Cell(f"{sum(node.commits for node in own):,}", "num"),
            Cell(f"{sum(node.received for node in own):,}", "num"),
            Cell(f"{_mean([node.paused_share for node in own]):.1%}", "num"),
            Cell(f"{sum(node.pauses_asked for node in own):,}", "num"),
            Cell(small(_mean(queues)) if queues else "–", "num"),
            Cell(f"{sum(_lost(node) for node in own):,}", "num"),
            Cell(small(apart[-1]) if apart else "–", "num"),
        )


def _lost(node: NodeActivity) -> int:
    return node.cert_failures + node.bf_aborts


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
