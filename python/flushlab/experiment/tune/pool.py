"""Pool: which candidates are still in the running, and the arms that selections of them make. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from flushlab.experiment.blocks import BASE
from flushlab.experiment.frontier import Excluded
from flushlab.experiment.selection import Selection, Space
from flushlab.experiment.tune.plan import TunePlan
from flushlab.record import Arm, Trial, Value
from flushlab.settings.floor import Floor
from flushlab.units import format_seconds


class Pool:
    """Candidates of a plan; what changes nothing or falls below the floor is out from the start.

    Attributes:
        space: their selections.
        base: the arm without any.
        usable: those in the running.
        excluded: the others, each with its reason.
    """

    def __init__(self, space: Space, floor: Floor) -> None:
        self.space = space
        self.base = Arm(name=BASE, settings=space.base)
        self.usable: Selection = frozenset(range(len(space.candidates)))
        self.excluded: list[Excluded] = []
        self._floor = floor
        self._names: dict[Selection, str] = {}
        self._base_read_back: Mapping[str, Value] = {}
        self._exclude_pointless()

    def bought(self) -> list[int]:
        """Usable candidates that lower a guarantee."""
        return [i for i in sorted(self.usable) if not self.space.free(frozenset({i}))]

    def free(self) -> list[int]:
        """Usable candidates that lower none."""
        return [i for i in sorted(self.usable) if self.space.free(frozenset({i}))]

    def arm(self, selection: Selection) -> Arm:
        """The selection's arm, under a name that no other selection has."""
        if not selection:
            return self.base
        if selection not in self._names:
            name, taken = self.space.name(selection), set(self._names.values())
            number = 2
            unique = name
            while unique in taken:
                unique = f"{name} #{number}"
                number += 1
            self._names[selection] = unique
        return Arm(name=self._names[selection], settings=self.space.settings(selection))

    def exclude(self, index: int, reason: str, *, refused: bool) -> None:
        """Takes a candidate out of the running."""
        settings = dict(self.space.candidates[index].settings)
        self.excluded.append(Excluded(settings=settings, reason=reason, refused=refused))
        self.usable -= {index}

    def exclude_unchanged(self, arm: str, trial: Trial) -> None:
        """Leaves out changes that the server rounded back to what the base has."""
        if arm == BASE:
            self._base_read_back = trial.settings
        selection = next((known for known, name in self._names.items() if name == arm), frozenset[int]())
        for index in selection & self.usable:
            names = self.space.candidates[index].settings
            if all(n in trial.settings and trial.settings[n] == self._base_read_back.get(n) for n in names):
                self.exclude(index, "the server changes it to the base's value", refused=False)

    def exclude_slow_windows(self, plan: TunePlan, rate: float | None) -> None:
        """Leaves out candidates whose redo log this workload takes too long to fill."""
        need = plan.redo_to_outlast
        if need is None or not rate:
            return
        own = need(self.space.base)
        for index in sorted(self.usable):
            needed = need(self.space.settings(frozenset({index})))
            if needed > own and (window := needed / rate) > plan.window_limit_s:
                reason = (
                    f"its windows would have to last {format_seconds(window)} to outlast the redo log, "
                    f"longer than this budget allows ({format_seconds(plan.window_limit_s)})"
                )
                self.exclude(index, reason, refused=False)

    def exclude_arm(self, name: str, reason: str) -> None:
        """Takes out the one change of an arm that a server did not run with."""
        for selection in [s for s, known in self._names.items() if known == name]:
            self.exclude_failed(min(selection), reason)

    def exclude_failed(self, index: int, reason: str) -> None:
        """Takes out a change that a server did not run with; the reason begins with the trial's outcome."""
        self.exclude(index, reason, refused=not reason.startswith("failed: "))

    def _exclude_pointless(self) -> None:
        """Leaves out what changes nothing or falls below the floor."""
        for index in range(len(self.space.candidates)):
            single = frozenset({index})
            if not self.space.changes(single):
                self.exclude(index, "the base has this value", refused=False)
            elif not self.space.legal(single, self._floor):
                self.exclude(index, f"meets only {self.space.level(single)}, below the floor", refused=False)
