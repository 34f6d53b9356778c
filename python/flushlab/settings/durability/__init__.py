"""Durability: what a server keeps under each failure, from its settings, its storage and its launch.

Sits in `settings`, pure: no I/O, no server. One rule is one function in `commits.py` or `files.py` and one
line in `RULES`; each says for which flavor and versions it holds and where it comes from. A guarantee is the
worst of what the rules say. docs/explanation/durability.md is the page for people.

    found = guarantees(settings, identity, storage, launch)
    level(found)                    # the safest floor that they meet
    meets(found, Floor.SECOND)
    describe(found)["power_loss"]   # plain words
    verdict(settings, identity, storage, launch)    # the floor, with the condition on the disk
"""

from flushlab.settings.durability.guarantee import (
    FLUSH_INTERVAL_S,
    Failure,
    Guarantees,
    describe,
    keeps,
    level,
    meets,
)
from flushlab.settings.durability.model import FLOOR, RULES, Verdict, described, guarantees, verdict
