"""Only: which of a plan's arms were asked for. Pure.

Sits in `plan`. People type less than a whole name: `H` is the arm `H doublewrite off`.
"""

from __future__ import annotations

from collections.abc import Sequence

from flushlab.errors import UsageError
from flushlab.near import nearest


def chosen(words: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The arms that words stand for, in the plan's order: each is a name, or how only one name begins.

    Args:
        words: as they were typed.
        names: of the plan's arms.

    Raises:
        UsageError: a word is no arm's, or several arms' beginning.
    """
    found = {_meant(word, names) for word in words}
    return tuple(name for name in names if name in found)


def _meant(word: str, names: Sequence[str]) -> str:
    typed = word.strip().casefold()
    folded = {name: name.casefold() for name in names}
    exact = [name for name in names if name == word.strip()] or [n for n in names if folded[n] == typed]
    whole = [name for name in names if typed and folded[name].startswith(f"{typed} ")]
    begun = [name for name in names if typed and folded[name].startswith(typed)]
    for some in (exact, whole, begun):
        if len(some) == 1:
            return some[0]
    if begun:
        raise UsageError(f"--only {word!r} fits several arms", hint=f"name one of: {'; '.join(begun)}")
    near = nearest(word, names)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"the plan has: {'; '.join(names)}"
    raise UsageError(f"--only {word!r}: the plan has no such arm", hint=hint)
