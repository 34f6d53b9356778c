"""Campaign: the arms that were asked for, then the control if nothing was lost. Sits in `campaign.crash`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from flushlab.campaign.crash.arm import crash_arm, judges_again
from flushlab.campaign.crash.control import control_images, control_of, judged_images, loses, warnings_of
from flushlab.campaign.crash.plan import CrashPlan
from flushlab.campaign.crash.stored import Book
from flushlab.errors import FlushlabError
from flushlab.record import CrashArm, CrashFacts, CrashImage, SourceText, Value, Warning
from flushlab.redact import without_passwords


class CrashCampaign:
    """A campaign that runs.

    Args:
        plan: what its arms share.
        workload: its name.
        book: it is noted in the store; None: nowhere.
        sources: the texts that it runs.
    """

    def __init__(
        self,
        plan: CrashPlan,
        workload: str,
        book: Book | None = None,
        sources: tuple[SourceText, ...] = (),
    ) -> None:
        self._plan, self._workload, self._book, self._sources = plan, workload, book, sources

    def crash_all(
        self,
        planned: Mapping[str, Mapping[str, Value]],
        *,
        controls: bool,
        warnings: Sequence[Warning] = (),
    ) -> CrashFacts:
        """Crashes settings, by name, then the control if nothing was lost and `controls`."""
        plan = self._plan
        arms: list[CrashArm] = []
        ended = False

        def facts(arm: CrashArm) -> CrashFacts:
            return self.facts(self._with_known([*arms, arm]), ended=True, warnings=warnings)

        for name, settings in planned.items():
            arm = CrashArm(name=name, settings=settings, checks_rows=plan.load.has_ledger)
            ended = self._add(arms, arm, plan.images, facts)
            if ended:
                break
        if controls and not ended and not any(loses(arm) for arm in arms):
            control = control_of(
                next(iter(planned.values())),
                plan.kind,
                cluster=bool(plan.which),
                ledger=plan.load.has_ledger,
            )
            ended = control is not None and self._add(arms, control, control_images(plan.images), facts)
        found = self._with_known(arms)
        return self.facts(found, ended=ended, warnings=(*warnings, *warnings_of(found)))

    def _with_known(self, arms: Sequence[CrashArm]) -> list[CrashArm]:
        """Arms of this session, and what an earlier one has found of others."""
        known = self._book.known if self._book else {}
        return [*{**known, **{arm.name: arm for arm in arms}}.values()]

    def facts(
        self,
        arms: Sequence[CrashArm],
        *,
        ended: bool = False,
        warnings: Sequence[Warning] = (),
    ) -> CrashFacts:
        """What was found of arms; `ended`: a Ctrl-C has ended them."""
        plan = self._plan
        return CrashFacts(
            server=plan.target.identity.title,
            workload=without_passwords(self._workload),
            beside=without_passwords(plan.load.beside_name),
            sources=self._sources,
            fail=plan.kind,
            fs="" if plan.kind == "process" else plan.fs,
            disk=plan.emulate.name if plan.emulate else "",
            tear=plan.failure.tear or 0,
            lying_flushes=plan.failure.lying_flushes,
            nodes=plan.target.nodes,
            crashed=plan.which,
            ending="interrupted" if ended else "done",
            arms=tuple(arms),
            seed=plan.seed,
            warnings=tuple(warnings),
            campaign=self._book.campaign if self._book else "",
        )

    def _add(
        self, arms: list[CrashArm], arm: CrashArm, images: int, facts: Callable[[CrashArm], CrashFacts]
    ) -> bool:
        """Adds an arm; True if a Ctrl-C has ended it."""
        book = self._book
        known = book.known.get(arm.name) if book else None
        mine = f"{book.campaign} {arm.name}" if book else ""
        if known is not None and len(known.images) >= images:
            all_judged = judged_images(known) == len(known.images)
            if all_judged or not judges_again(self._plan, known, mine):
                arms.append(known)
                return False

        so_far = known

        def note(images: Sequence[CrashImage]) -> None:
            nonlocal so_far
            so_far = msgspec.structs.replace(known or arm, images=tuple(images))
            if book:
                book.note(lambda: facts(so_far or arm))

        try:
            judged, ended = crash_arm(self._plan, arm, images, known.images if known else (), note, mine)
        except (KeyboardInterrupt, FlushlabError) as error:
            if so_far is not None:
                arms.append(so_far)
            found = self._with_known(arms)
            if isinstance(error, KeyboardInterrupt) and found:
                return True
            if book and found:
                book.keep(self.facts(found, ended=True))
            raise
        arms.append(judged)
        return ended
