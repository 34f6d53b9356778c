"""Identifier: names in SQL. The one place that quotes them.

Server layer; pure.
"""

from __future__ import annotations

import re


def quoted(*names: str) -> str:
    """A name as SQL spells it, qualified by those before it: `schema`.`table`.

    Backticks are doubled, as the manuals of both servers say ("Schema Object Names", "Identifier Names").
    """
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def account_of(current_user: str) -> str:
    """The account as GRANT spells it, from what CURRENT_USER() gives."""
    user, _, host = current_user.rpartition("@")
    return "@".join("'" + re.sub(r"(['\\])", r"\\\1", part) + "'" for part in (user, host))
