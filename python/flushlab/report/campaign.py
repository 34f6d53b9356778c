"""Report of `tune`, `series` and `compare`: the document, and `flushlab.campaign/1`. Pure.

docs/reference/campaign-json.md has every field of the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any

from flushlab.advice.handed_over import Advice
from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import IF_LOST, Recommended, offered, recommended
from flushlab.campaign.request import SeriesRequest
from flushlab.record import Trial
from flushlab.report import about, crash, measured, results
from flushlab.report.answer import headline, keys
from flushlab.report.document import Code, Document, Section
from flushlab.report.results import CarryOver, carry_over
from flushlab.report.stored import foot, repeat, request_of, workload_of
from flushlab.report.subject import Subject, by_arm
from flushlab.report.words import extended, servers
from flushlab.settings.floor import Floor
from flushlab.store import CampaignRow


class CampaignDocument(
    CampaignFacts, frozen=True, kw_only=True, tag_field="schema", tag="flushlab.campaign/1"
):
    """The document: `schema`, the facts, and what follows from them.

    Attributes:
        recommended: the change to make, one for each server that has one.
        offered: gains of a tuning below its floor, the safest first.
        carry_over: what holds on another server.
        crash: as in [crash-json.md](crash-json.md): what crashes left of the winner of a tuning, and of those
            that were rejected for it; null: nothing was crashed.
    """

    recommended: tuple[Recommended, ...]
    offered: tuple[Recommended, ...]
    carry_over: tuple[CarryOver, ...]
    crash: Any = None


def as_json(facts: CampaignFacts) -> CampaignDocument:
    return extended(
        CampaignDocument,
        facts,
        recommended=recommended(facts),
        offered=offered(facts),
        carry_over=tuple(carry_over(facts)),
        crash=crash.as_json(facts.crash) if facts.crash else None,
    )


def document(
    facts: CampaignFacts | None,
    row: CampaignRow | None = None,
    trials: Iterable[Trial] = (),
    *,
    advice: Sequence[Advice] | None = None,
    beside: Sequence[Section] = (),
    per_machine: bool = False,
) -> Document:
    """`facts` None: nothing is proven. `beside` has sections of other records that bear on it."""
    trials = list(trials)
    request = request_of(row) if row is not None else None
    subject = Subject(row, request, facts, trials, by_arm(trials))
    first, interval, lead = headline(subject)
    if facts is not None:
        todo, hint = () if facts.never_ran else _todo(facts, advice), _hint(facts)
        title = facts.title if facts.kind == "series" else ""
    else:
        todo, hint, title = (), "", request.title if isinstance(request, SeriesRequest) else ""
    sections = (*_sections(subject, per_machine), *beside)
    is_empty = facts is not None and facts.never_ran
    if is_empty:
        sections = tuple(section._replace(short=()) for section in sections)
    return Document(
        kind=facts.kind if facts is not None else "",
        headline=first,
        interval=interval,
        lead=lead,
        servers=servers(facts) if facts else ", ".join(one.server.title for one in subject.servers),
        workload=facts.workload if facts is not None else workload_of(request),
        title=title,
        keys=() if is_empty else tuple(keys(subject)),
        sections=sections,
        todo=todo,
        id=facts.campaign_id if facts is not None else "",
        hint=hint,
    )._replace(**(foot(row) if row is not None else {}))


def _sections(subject: Subject, per_machine: bool) -> Iterator[Section]:
    facts = subject.facts if subject.facts is None or not subject.facts.never_ran else None
    tuning, plan = (facts.tuning, facts.plan) if facts is not None else (None, None)
    if facts is not None and tuning is not None:
        yield from results.frontier(facts, tuning)
    if facts is not None:
        yield from results.ratios(facts)
        yield from results.machines(facts, per_machine=per_machine)
    if facts is not None and plan is not None and plan.factors:
        yield from results.effects(facts, plan)
    yield from _on_pages(
        measured.over_time(subject),
        measured.files(subject),
        measured.nodes(subject),
        about.settings(subject),
    )
    if plan is not None:
        yield from results.claims(plan)
    if facts is not None:
        yield from results.guarantees(facts)
    if facts is not None and facts.crash is not None:
        left, *failing = crash.sections(facts.crash)
        yield left
        yield from _on_pages(failing)
    yield about.machine(subject)
    if tuning is not None:
        yield from results.left_out(
            results.out_of_tuning(tuning), "dropped", *(["excluded"] if tuning.tried else [])
        )
    elif facts is None:
        yield from _on_pages(results.left_out(results.out_of_trials(subject.trials)))
    yield from measured.warnings(subject)
    yield from _on_pages(measured.output(subject))
    if facts is not None and facts.stand_in is not None:
        yield from _on_pages([about.stand_in(facts.stand_in)])
    if facts is not None:
        yield from results.carries(facts)
    if subject.row is not None:
        yield from repeat(subject.row, subject.request)


def _on_pages(*sections: Iterable[Section]) -> Iterator[Section]:
    return (section._replace(short=()) for section in chain.from_iterable(sections))


def _hint(facts: CampaignFacts) -> str:
    if facts.ending == "interrupted":
        return f"interrupted; resume with: {facts.resume}"
    if facts.plan is None or facts.files:
        return ""
    files = ", with these files" if any(one.has_files for one in recommended(facts)) else ""
    return f"HTML page{files}: flushlab report {facts.campaign_id}"


def _todo(facts: CampaignFacts, advice: Sequence[Advice] | None) -> tuple[Section, ...]:
    if advice is None:
        advice = [Advice(one) for one in recommended(facts)]
    found = [_to_do(facts, one, number) for number, one in enumerate(advice)]
    return (*found, *(_offer(one) for one in offered(facts)))


def _to_do(facts: CampaignFacts, advice: Advice, number: int) -> Section:
    one = advice.recommended
    where = one.folder or "your server"
    folder = PurePath(facts.files[0]).parent / one.folder if facts.files else None
    files = f", with the files in {folder}/" if folder and one.has_files else ""
    return Section(
        "what-to-do" if not number else f"what-to-do-{number + 1}",
        f"What to do on {where}{files}",
        texts=(one.sentence, *_costs(one), *(() if one.has_files else one.not_shown)),
        code=(
            *(
                Code("\n".join(step.commands), f"{place}. {step.what}", "always")
                for place, step in enumerate(one.next_steps, 1)
            ),
            *(
                Code(text, name, "page" if name in ("my.cnf", "settings.sql") else "folded")
                for name, text in advice.files.items()
            ),
        ),
    )


def _offer(one: Recommended) -> Section:
    return Section(
        f"offer-{one.floor}",
        f"Offer, if you can lose {IF_LOST[Floor(one.floor)]} (floor {one.floor})",
        texts=(one.sentence, *_costs(one)),
        code=tuple(Code("\n".join(step.commands), step.what, "always") for step in one.next_steps),
    )


def _costs(one: Recommended) -> tuple[str, ...]:
    costs = tuple(f"Costs: {line}." for line in one.costs)
    return costs or ("Costs: no durability; every guarantee stays.",)
