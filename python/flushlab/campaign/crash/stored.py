"""Stored: crash campaigns in the store: what was judged is saved as it comes, so that a killed one goes on.

The plan is what `crash` was asked for, the result what is known so far. Verdicts that were not saved when it
was killed, at most those of `EVERY_S`, are found again: an image depends on its record and its point alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from flushlab.campaign.crash.request import CrashRequest
from flushlab.campaign.watcher import Watcher
from flushlab.crashed.cluster_recorded import RUN as CLUSTER_RUN
from flushlab.crashed.cluster_recorded import ClusterRun
from flushlab.crashed.ledger import read_notes
from flushlab.crashed.recorded import RUN, Run
from flushlab.datadir import Recording
from flushlab.datadir.fault_disk import record_owner, remove_record
from flushlab.errors import FlushlabError, StorageError, UsageError
from flushlab.process.running import board
from flushlab.record import CrashArm, CrashFacts
from flushlab.store import Store, new_id

EVERY_S = 2.0
KIND = "crash"


class Book:
    """A campaign that runs, in the store."""

    def __init__(self, store: Store, campaign: str, known: CrashFacts | None) -> None:
        self._store, self.campaign = store, campaign
        self._written = time.monotonic()
        self.known: Mapping[str, CrashArm] = {arm.name: arm for arm in known.arms} if known else {}
        """What an earlier session has found, by arm."""
        self.has_kept = False
        """Whether this one has kept whole arms."""

    def note(self, facts: Callable[[], CrashFacts]) -> None:
        """Saves what is known, if that was not done just now."""
        if time.monotonic() - self._written >= EVERY_S:
            self._store.set_state(self.campaign, "running", msgspec.json.encode(facts()))
            self._written = time.monotonic()

    def keep(self, facts: CrashFacts) -> None:
        """Saves whole arms before an error ends the campaign."""
        self._store.set_state(self.campaign, "running", msgspec.json.encode(facts))
        self.has_kept = True


def carry_out(
    store: Store,
    request: CrashRequest,
    resume: str | None,
    watcher: Watcher,
    run: Callable[[Book], CrashFacts],
) -> CrashFacts:
    """Runs a campaign, saves what it finds, and says how it goes on if it does not end.

    Raises:
        FlushlabError: what `run` does.
    """
    campaign = resume or new_id(KIND)
    board().is_about(campaign=campaign)
    with store.hold(campaign):
        known = None
        if resume is None:
            store.create_campaign(campaign, KIND, msgspec.json.encode(request))
        else:
            result = store.campaign(campaign).result
            known = msgspec.json.decode(result, type=CrashFacts) if result else None
            store.set_state(campaign, "running")
        watcher.say(f"campaign {campaign}")
        book = Book(store, campaign, known)
        on = f"resume it with: flushlab crash --resume {campaign}"
        try:
            facts = run(book)
        except FlushlabError:
            store.set_state(campaign, "failed")
            if book.has_kept:
                watcher.warn(f"`flushlab report {campaign}` has what was judged; {on}")
            raise
        except KeyboardInterrupt:
            store.set_state(campaign, "interrupted")
            watcher.warn(f"interrupted; {on}")
            raise
        store.set_state(campaign, facts.ending, msgspec.json.encode(facts))
    if facts.ending == "interrupted":
        watcher.warn(on)
    return facts


def record_of(keep: Path | None, arm: str) -> Path | None:
    """The record that an earlier session has made for an arm, whole or cut short; None if nothing was
    committed in it."""
    return next((folder for folder in _records_of(keep, arm) if _can_be_judged(folder)), None)


def remove_stumps(keep: Path | None, arm: str) -> None:
    """Removes records that an earlier session has begun for an arm, and that were cut short before anything
    could be judged; what this flushlab cannot read stays."""
    for folder in list(_records_of(keep, arm)):
        if _is_stump(folder):
            remove_record(folder)


def _records_of(keep: Path | None, arm: str) -> Iterator[Path]:
    for folder in sorted(keep.glob("*.record")) if keep else ():
        if record_owner(folder) == arm:
            yield folder


def _is_stump(record: Path) -> bool:
    if not any((record / name).exists() for name in (RUN, CLUSTER_RUN)):
        return True  # its server was not under load yet, or it is one node's
    with suppress(StorageError):
        recording, run = Recording(record), Run.read(record)
        return not run.whole and not _is_enough(run, recording)
    return False


def _can_be_judged(record: Path) -> bool:
    try:
        if (record / CLUSTER_RUN).exists():
            return bool(ClusterRun.read(record).disks)
        return _is_enough(Run.read(record), Recording(record))
    except StorageError:
        return False


def _is_enough(run: Run, recording: Recording) -> bool:
    try:
        run.completed(recording, read_notes(recording.folder / "notes"))
    except StorageError:
        return False
    return True


def require_build(record: Path, recorded: str, build: str) -> None:
    """Refuses to judge a record with another build than the one that wrote it.

    Args:
        record: its folder.
        recorded, build: ids of the build that wrote it, and of the one at hand.

    Raises:
        UsageError: they differ.
    """
    if recorded != build:
        raise UsageError(
            f"the record {record} is of the build {recorded}, not of {build}",
            hint="name its server with --server, or record again in another folder",
        )
