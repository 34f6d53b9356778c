"""Usage: what typer finds wrong with a command line, in the words of every other error.

typer's exceptions are known by what they have (`format_message`, `ctx`, `param`): their classes are its own
affair, and have moved between its versions.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from flushlab.errors import UsageError
from flushlab.near import nearest

_GUESS = re.compile(r"\.? (?:Did you mean (?P<one>.+)\?|\(Possible options: (?P<all>.+)\))$")
_NEAR = 0.75
_KINDS = (("a valid int", "a whole number"), ("a valid float", "a number"), (" number range", " number"))
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")


def is_usage(error: BaseException) -> bool:
    """True for an exception of typer's about the command line."""
    return hasattr(error, "format_message")


def help_instead(error: BaseException) -> str | None:
    """The help that is shown where a command group is named without a command; None for other mistakes."""
    context = getattr(error, "ctx", None)
    text = str(getattr(error, "message", ""))
    return text if context is not None and text == context.get_help() else None


def usage_error(error: Any) -> UsageError:
    """The error that says the same."""
    context = error.ctx
    path = context.command_path if context is not None else "flushlab"
    hint = f"see {path} --help"
    parameter = getattr(error, "param", None)
    if parameter is not None and error.message:
        return _bad_value(error.message, parameter, hint)
    text = error.format_message()
    guess = _GUESS.search(text)
    if guess is not None:
        text = text[: guess.start()]
        meant = (guess["one"] or guess["all"]).replace("'", "").split(", ")
        near = nearest(text.split()[-1].strip("'"), meant, most=2, cutoff=_NEAR)
        hint = f"did you mean {' or '.join(near)}?" if near else hint
    text = _EXTRA.sub(r"unexpected argument: \1", text)
    return UsageError(text[:1].lower() + text[1:].rstrip("."), hint=hint)


def _bad_value(message: str, parameter: Any, hint: str) -> UsageError:
    name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.human_readable_name
    choices = [str(getattr(one, "value", one)) for one in getattr(parameter.type, "choices", ())]
    spelled = re.match(r"'([^']*)' is not", message)
    for theirs, ours in _KINDS:
        message = message.replace(theirs, ours)
    if choices and spelled:
        message = f"{spelled[1]!r} is not one of {', '.join(choices)}"
        near = difflib.get_close_matches(spelled[1].lower(), choices, n=1)
        hint = f"did you mean {near[0]}?" if near else hint
    message = re.sub(r"is not in the range (\S+?)<=x<=(\S+?)\.?$", r"is not between \1 and \2", message)
    return UsageError(f"{name}: {message.rstrip('.')}", hint=hint)
