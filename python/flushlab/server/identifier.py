"""Identifier: names in SQL. The one place that quotes them.

Server layer; pure.
"""

from __future__ import annotations


def quoted(*names: str) -> str:
    """A name as SQL spells it, qualified by those before it: `schema`.`table`.

    Backticks are doubled, as the manuals of both servers say ("Schema Object Names", "Identifier Names").
    """
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)
