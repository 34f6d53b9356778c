"""The list of stored campaigns, compared with a file; `FLUSHLAB_UPDATE_GOLDEN=1` writes it anew."""

from __future__ import annotations

import msgspec

from flushlab.report import campaigns
from flushlab.store import CampaignRow
from tests.golden.test_reports import check
from tests.unit.report import campaigns as made


def stored(number: int, row: CampaignRow, trials: int) -> CampaignRow:
    when = f"2026-11-{30 - number:02}T08:{number:02}:00.000+00:00"
    return msgspec.structs.replace(
        row,
        id=f"{row.kind}-202611{30 - number:02}-08{number:02}00-{number:04x}",
        created_at=when,
        trials=trials,
    )


def rows() -> list[CampaignRow]:
    tune, series = made.tune_facts(), made.series_facts()
    unproven = made.tune_facts(winner=None, frontier=(), blocks=0)
    slower = tuple(arm for arm in series.arms if arm.name in ("F", "K"))
    hostile = made.series_request(build="mariadb\x1b[31m@" + "10" * 60)
    every = [
        (made.row("series", None), 12),
        (made.row("series", series), 10_000),
        (made.row("tune", tune), 46),
        (made.row("tune", made.tune_facts(winner=None)), 1),
        (made.row("tune", unproven, state="interrupted"), 3),
        (made.row("series", made.series_facts(arms=slower, claims=())), 30),
        (made.row("tune", None, state="failed"), 0),
        (made.row("series", None, hostile), 2),
        (made.row("tune", None, result=b"{", state="done"), 5),
        (made.crashed(), 24),
        (msgspec.structs.replace(made.crashed(), result=None, state="running"), 3),
    ]
    return [stored(number, row, trials) for number, (row, trials) in enumerate(every)]


def test_campaigns_are_listed_with_their_answer() -> None:
    check("report-list.txt", campaigns.render(rows()))


def test_an_empty_store_says_so() -> None:
    assert campaigns.render([]) == "no campaigns yet\n"


def test_the_document_keeps_its_keys() -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(campaigns.as_json(rows())))
    assert decoded["schema"] == "flushlab.campaigns/1"
    assert decoded["campaigns"][1] == {
        "id": "series-20261129-080100-0001",
        "kind": "series",
        "created_at": "2026-11-29T08:01:00.000+00:00",
        "server": "mariadb@10.11.19",
        "state": "done",
        "trials": 10_000,
        "answer": "best 2.40× [2.10, 2.70]; claims: 1 confirmed, 1 refuted",
    }
