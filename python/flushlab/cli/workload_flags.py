"""Flags of workloads that a command does not declare: whatever option some workload has is one.

sysbench's options alone are two dozen; each is declared once, in `flushlab.workload`, and read from here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from flushlab.errors import UsageError
from flushlab.record import Value
from flushlab.workload import all_options
from flushlab.workload.options import SWITCH
from flushlab.workload.parse import flag
from flushlab.workload.sysbench import NOT_TAKEN


def read(
    arguments: Iterable[str], declared: Iterable[str], words: list[str] | None = None
) -> dict[str, Value]:
    """The options that stand among a command's arguments, by their names.

    Args:
        arguments: what the command line has and the command does not declare.
        declared: flags of the command itself, for hints.
        words: takes what is no option; None: the command takes no words.

    Raises:
        UsageError: no option of any workload, or a value that it does not take.
    """
    known = {flag(name): option for name, option in all_options().items()}
    refused = {flag(name): hint for name, hint in NOT_TAKEN.items()}
    given: dict[str, Value] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if words is not None and not word.startswith("-"):
            words.append(word)
            continue
        spelled, equals, text = word.partition("=")
        spelled = spelled.replace("_", "-")
        if spelled in refused:
            raise UsageError(f"sysbench's option {spelled} is not supported", hint=refused[spelled])
        if spelled not in known:
            raise UsageError(
                f"no such option: {spelled}"
                if spelled.startswith("-")
                else f"unexpected argument {spelled!r}",
                hint=_nearest(spelled, [*declared, *known]),
            )
        option = known[spelled]
        if not equals:
            if option.kind == "switch" and (not rest or rest[0].lower() not in SWITCH):
                text = "on"
            elif rest:
                text = rest.pop(0)
            else:
                raise UsageError(f"{spelled} requires an argument", hint=option.help)
        given[option.name] = option.read(text, flag)
    return given


def _nearest(spelled: str, known: list[str]) -> str:
    near = difflib.get_close_matches(spelled, known, n=1)
    return (
        f"did you mean {near[0]}?"
        if near
        else "see --help; docs/reference/workloads.md lists the workloads' options"
    )
