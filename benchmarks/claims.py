"""The shipped plan `insert-on-duplicate`: each of its seven claims is to be decided in about twenty minutes.

Arms that act in the commit path alternate in slices; those that commit by the clock have their own, as
these must be long, and those that show later have fresh servers; on a slow disk all have. An arm that took
slices and whose claim is not decided runs once more by itself, until its interval is narrow.

    python benchmarks/claims.py --server mysql@8.0
    python benchmarks/claims.py --server mysql@8.0 --disk iops=120 --all

Prints rows of the tables in docs/results/series.md. Set FLUSHLAB_ZFS_ROOT for the arms on ZFS. Bar:
every claim is confirmed or refuted, or its interval lies within 2.5 % of its ratio.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

import flushlab
from flushlab.campaign.facts import ArmResult, CampaignFacts, ClaimFacts
from flushlab.record import Comparison, Ratio

PLAN = "insert-on-duplicate"
ARMS = ("B", "C", "G", "H", "I", "J", "J2")
"""What the claims are about."""
BLOCKS, SECONDS = 5, 8.0
MORE_BLOCKS = 40
"""At most, of an arm by itself."""
PRECISE = 0.025


def _claims(facts: CampaignFacts) -> tuple[ClaimFacts, ...]:
    return facts.plan.claims if facts.plan is not None else ()


def _rows(facts: CampaignFacts) -> Iterator[tuple[str, str]]:
    yield from ((arm.name, _words(arm)) for arm in facts.arms)
    yield "control", _ratio(facts.control.comparison if facts.control else None)
    yield (
        "the base itself",
        "no result" if facts.base.result is None else f"{facts.base.result:,.0f} {facts.unit}",
    )
    for claim in _claims(facts):
        found = f" ({claim.ratio.estimate:.2f})" if claim.ratio else ""
        yield claim.text, f"{claim.answer}{found}{'' if _decided(claim.answer, claim.ratio) else '   MISSED'}"


def _words(arm: ArmResult) -> str:
    return f"{_ratio(arm.comparison)}{', fresh' if arm.why_fresh else ''}" if arm.comparison else arm.outcome


def _ratio(found: Comparison | None) -> str:
    if found is None:
        return "no result"
    text = f"{found.ratio.estimate:.2f} [{found.ratio.low:.2f}, {found.ratio.high:.2f}]"
    return text if found.verdict == "no difference found" else f"**{text}**"


def _decided(answer: str, ratio: Ratio | None) -> bool:
    narrow = ratio is not None and (ratio.high - ratio.low) / 2 <= PRECISE * ratio.estimate
    return answer in ("confirmed", "refuted", "no difference") or narrow


def _write(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def main() -> int:
    """Runs the plan; 1 if a claim is not decided."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="mysql@8.0")
    parser.add_argument("--disk", help="run on a disk as slow as this one (root)")
    parser.add_argument("--window", type=float, default=SECONDS, help="of a window on a fresh server")
    parser.add_argument("--all", action="store_true", help="all arms of the plan, not only those of claims")
    parser.add_argument("--resume", help="id of a campaign that was interrupted")
    given = parser.parse_args()
    began = time.monotonic()
    asked: dict[str, Any] = {
        "plan": PLAN,
        "server": given.server,
        "blocks": BLOCKS,
        "window": given.window,
        "only": () if given.all else ARMS,
        "disk": given.disk,
    }
    facts = flushlab.series(
        **({"resume": given.resume} if given.resume else asked),
        progress=lambda line: _write(sys.stderr, line),
    )
    minutes = (time.monotonic() - began) / 60
    others = facts.others.words if facts.others else ""
    _write(sys.stdout, f"{given.server}, {minutes:.1f} min, {others}, campaign {facts.campaign_id}")
    for what, found in _rows(facts):
        _write(sys.stdout, f"| {what} | {found} |")
    undecided = [claim for claim in _claims(facts) if not _decided(claim.answer, claim.ratio)]
    fresh = {arm.name for arm in facts.arms if arm.why_fresh or arm.comparison is None}
    left = []
    for claim in undecided:
        if not facts.interleaved or claim.arm in fresh or claim.against != "base":
            left.append(claim)
            continue
        again = flushlab.series(
            **{**asked, "only": [claim.arm], "blocks": MORE_BLOCKS, "precision": PRECISE},
            progress=lambda line: _write(sys.stderr, line),
        )
        minutes = (time.monotonic() - began) / 60
        _write(sys.stdout, f"{claim.arm} by itself, after {minutes:.1f} min in all")
        for what, found in _rows(again):
            _write(sys.stdout, f"| {what} | {found} |")
        left += [one for one in _claims(again) if not _decided(one.answer, one.ratio)]
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
