"""Prompt: asks for a password on the terminal, without showing it.

Server layer. Nothing else below `cli` talks to the user; only `--ask-pass` and `ask_pass=True` lead here.
"""

from __future__ import annotations

import os
from getpass import getpass

from flushlab.errors import UsageError

_HINT = "use an option file such as ~/.my.cnf, of mode 0600, with user and password in its group [client]"


def ask_password(prompt: str) -> str:
    """The password that the user types.

    Raises:
        UsageError: there is no terminal, or the user ended the input.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise UsageError("there is no terminal to ask for the password", hint=_HINT) from None
    try:
        return getpass(prompt)
    except EOFError:
        raise UsageError("no password was entered", hint=_HINT) from None
