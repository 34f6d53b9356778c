"""The page: a stored campaign as one HTML file that needs nothing else. Pure: rows in, text out.

Sits in `report`. The answer stands first; every section after it says what it shows in a sentence, as a plot
and as a table, and is left out where nothing is known. Promises:

- nothing is loaded from anywhere, no script runs, and everything that people or servers wrote is escaped;
- the same campaign gives the same bytes;
- under 1.5 MB, whatever the number of trials and arms: long lists and texts are cut, and the page says so.

jinja2 and matplotlib load with this module: import it where a page is made.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import jinja2

from flushlab.campaign.facts import CampaignFacts
from flushlab.campaign.recommended import IF_LOST, Recommended, offered
from flushlab.record import Trial
from flushlab.report.carry_over import carry_over
from flushlab.report.page import about, crash, machines, measured, results
from flushlab.report.page.arms import by_arm
from flushlab.report.page.head import head, keys
from flushlab.report.page.parts import Cell, Head, Section, Subject, Table, when
from flushlab.report.stored import request_of
from flushlab.store import CampaignRow

MAX_ROWS = 150
MAX_TEXT = 1_000
MAX_CODE = 60_000
"""Limits on what one page shows: rows of a table, characters of a text and of a block of code."""

_BREAKS = re.compile(r"([_=/@])(?=\w)")


class Advice(NamedTuple):
    """What to do on one server: the change and its proof, the files that make it, undo it and verify it.

    `statements_file` has the statements too, below their origin and queries for the values they overwrite.
    """

    recommended: Recommended
    option_file: str = ""
    statements: str = ""
    statements_file: str = ""
    rollback_file: str = ""
    rollback_statements: str = ""
    verification: str = ""

    @property
    def files(self) -> dict[str, str]:
        """Texts of the files that the steps name, by their names; none where they cannot be spelled."""
        texts = {
            "my.cnf": self.option_file,
            "settings.sql": self.statements_file,
            "verify.sql": self.verification,
            "rollback.cnf": self.rollback_file,
            "rollback.sql": self.rollback_statements,
        }
        return texts if self.recommended.has_files else {}


class Foot(NamedTuple):
    """The foot of a page about a record that is no campaign."""

    id: str
    kind: str
    state: str
    flushlab: str


_STORY: tuple[Callable[[Subject], Iterator[Section]], ...] = (
    results.ratios,
    machines.section,
    results.effects,
    results.frontier,
    measured.over_time,
    measured.files,
    measured.nodes,
    about.settings,
    results.claims,
    results.guarantees,
    crash.section,
    measured.warnings,
    measured.output,
    about.machine,
    about.stand_in,
    about.repeat,
    results.left_out,
)


def render(
    row: CampaignRow,
    facts: CampaignFacts | None,
    trials: Iterable[Trial],
    advice: Sequence[Advice] = (),
    beside: Sequence[Section] = (),
) -> str:
    """The page of a campaign.

    Args:
        facts: what it found out, or so far; None: nothing is proven.
        advice: how to change a server to what the campaign recommends, one for each server.
        beside: sections of other records that bear on it.
    """
    trials = list(trials)
    subject = Subject(row, request_of(row), facts, trials, by_arm(trials))
    sections = [*_what_now(subject, advice), *(one for make in _STORY for one in make(subject)), *beside]
    offers = offered(facts) if facts is not None else ()
    return page(row, head(subject), when(row), keys(subject), sections, advice, offers)


def page(
    foot: CampaignRow | Foot,
    answer: Head,
    began: str,
    known: Iterable[tuple[str, str]],
    sections: Sequence[Section],
    advice: Sequence[Advice] = (),
    offers: Sequence[Recommended] = (),
) -> str:
    """A page of sections.

    Args:
        began: time of the start, as a reader has it.
        known: the few facts below the answer.
        offers: gains below the floor.
    """
    return _template().render(
        row=foot,
        head=answer,
        when=began,
        keys=tuple(known),
        advice=advice,
        offers=offers,
        if_lost=IF_LOST,
        sections=sections,
        max_rows=MAX_ROWS,
        max_code=MAX_CODE,
    )


def _what_now(subject: Subject, advice: Sequence[Advice]) -> Iterator[Section]:
    """How to verify the changes on the real servers and how to undo them; what carries over to them."""
    if subject.facts is None:
        return
    for number, one in enumerate(advice):
        server = one.recommended.server
        lead = "Verify the change under the load that it is to help."
        if not subject.facts.is_remote:
            whose = "the fleet's machines'" if subject.facts.machines else "this machine's"
            lead = f"The results on this page are {whose}. Verify the change where it is to help."
        rows = tuple(
            (Cell(line.what, "name"), Cell(line.carries), Cell(line.why))
            for line in carry_over(subject.facts, server)
        )
        table = Table((Cell(""), Cell("carries over?"), Cell("why")), rows)
        found = one.recommended.next_steps
        shell = "\n\n".join(
            "\n".join([f"# {number}. {step.what}", *step.commands]) for number, step in enumerate(found, 1)
        )
        folded = {name: text for name, text in one.files.items() if name != "my.cnf"}  # that stands above
        title = "On your server" if len(advice) == 1 else f"On your server, {server.name}"
        key = "your-server" if not number else f"your-server-{number + 1}"
        yield Section(
            key, title, lead, tables=(table,), code=(*([("", shell)] if found else []), *folded.items())
        )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("flushlab.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["clip"] = _clip
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html.j2")


def _clip(text: str, length: int = MAX_TEXT) -> str:
    return text if len(text) <= length else f"{text[:length]} … ({len(text) - length:,} more characters)"


def _breakable(text: str) -> str:
    """Escaped text that may break after the marks that hold names and paths together."""
    return _BREAKS.sub(r"\1<wbr>", html.escape(text))
