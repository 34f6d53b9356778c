"""Finding: one thing about a line of an option file that its author should know. Pure; sits in `settings`."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]
"""error: the server does not start, or does not do what the line says; warning: it does, and there is a
catch; note: worth knowing."""


class Finding(msgspec.Struct, frozen=True):
    """One thing about a line that its author should know.

    Attributes:
        kind: stable: `syntax`, `include`, `wrong-group`, `instance`, `product`, `unknown-name`, `misspelled`,
            `formula`, `unknown-value`, `abbreviated`, `not-in-version`, `removed`, `deprecated`,
            `duplicate`, `wrong-type`, `out-of-range`, `rounded`, `not-a-switch`, `prefix`, `plugin`,
            `refused`, `contradiction`, `below-floor`, `at-risk`, `memory`, `ignored-file`, `not-read`.
        severity: see `Severity`.
        name: the option, as variables spell it; empty where a line has none.
        path, line: where it stands; line 0 if it stands nowhere.
        text: the problem in words.
        hint: the way out.
        fatal: the server does not start.
    """

    kind: str
    severity: Severity
    name: str
    path: str
    line: int
    text: str
    hint: str | None = None
    fatal: bool = False

    @property
    def place(self) -> str:
        """`my.cnf:12`."""
        return f"{self.path}:{self.line}" if self.line else self.path
