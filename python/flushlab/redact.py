"""Redact: passwords and private keys in texts that are shown or handed over. Pure; all layers may use it.

It finds passwords by the words beside them. So it hides some values that are none, and a script can hold one
that no word marks.
"""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "***"

_WORD = r"[\w-]*(?:password|passwd|pwd|passphrase|secret|token|api[_-]?key)[\w-]*"
_QUOTED = r"'(?:[^'\\\n]|\\.|'')*'|\"(?:[^\"\\\n]|\\.)*\""
_PLAIN = r"(?![$:?@{\[*])[^\s'\";&|,)]+"
"""No variable, placeholder, or table of TOML."""

_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        # mysql://user:password@host
        r"(\b[a-z][a-z0-9+.-]*://[^\s:/@'\"]*:)(?![$*])[^\s@'\"]+(?=@)",
        rf"(\bIDENTIFIED\s+(?:WITH\s+\S+\s+)?(?:BY|AS)\s+(?:PASSWORD\s+)?)(?:{_QUOTED})",
        rf"(\bPASSWORD\s*\(\s*)(?:{_QUOTED})",
        # password = "x", 'password': 'x', SET PASSWORD FOR u = 'x'
        rf"({_WORD}['\"]?(?:[ \t]+FOR[ \t]+\S+)?[ \t]*[=:][ \t]*)(?:{_QUOTED})",
        # --password=x, MYSQL_PWD=x
        rf"({_WORD}=)(?:{_PLAIN})",
        # a line of an option file
        rf"(^[ \t]*{_WORD}[ \t]*=[ \t]*){_PLAIN}(?=[ \t]*(?:#.*)?$)",
        rf"(--{_WORD}[ \t]+)(?:{_QUOTED}|(?!-){_PLAIN})",
        # mysql -psecret, of the servers' own clients
        rf"(\b(?:mysql|mariadb)[\w-]*\b[^\n;|&]*?\s-p)(?:{_QUOTED}|{_PLAIN})",
        r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----)[\s\S]*?(?=-----END |\Z)",
    )
)


_OPTION = re.compile(
    rf"^([ \t]*[#;]*[ \t]*(?:{_WORD}|[\w-]*sst[_-]auth)[ \t]*=[ \t]*)\S.*$", re.IGNORECASE | re.MULTILINE
)
"""A line that sets a password, also one that is commented out; `wsrep_sst_auth` is a user and a password."""


def without_passwords(text: str) -> str:
    """The text with `***` where a command line, an address, SQL or an option file has a password, and a PEM
    file a private key."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def option_file_without_passwords(text: str) -> str:
    """Of an option file, where a value reaches to the end of its line."""
    return without_passwords(_OPTION.sub(rf"\g<1>{HIDDEN}", text))


def values_without_passwords(value: Any) -> Any:
    if isinstance(value, str):
        return without_passwords(value)
    if isinstance(value, list):
        return [values_without_passwords(one) for one in value]
    if isinstance(value, dict):
        return {name: values_without_passwords(one) for name, one in value.items()}
    return value
