"""Source: the server's version alone: `mysqld --version`, SELECT VERSION(), the client's `\\s`. Pure.

`mysql --version` is that of a client.
"""

from __future__ import annotations

import re

from flushlab.diagnosis.files.told import Source, Told

_NUMBER = r"(\d{1,2}\.\d{1,2}\.\d{1,3}[\w.:+~-]{0,80})"
_FORMS = (
    re.compile(rf"(?:^|/)(?:mysqld|mariadbd)\s+Ver {_NUMBER} for ", re.MULTILINE),
    re.compile(rf"^Server version:?\s+{_NUMBER}", re.MULTILINE),
    re.compile(rf"\A\W*(?:VERSION\(\)|@@version)?\W*{_NUMBER}\W*\Z"),
)
_MOST = 4096
"""Characters of a text that has not much else."""


def parse(text: str) -> Told:
    """The version, if the text is about it."""
    found = (form.search(text) for form in _FORMS) if len(text) <= _MOST else ()
    return Told(version=next((match[1] for match in found if match is not None), ""))


SOURCE = Source(name="version", marks=(".",), parse=parse)
