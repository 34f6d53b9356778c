"""Reading: what a server makes of the text of an option, mistakes included. Pure.

Other parts of flushlab take values generously (`SettingHere.parse`: `1.5G`, `yes`); servers do not. The rules
here were found by asking MySQL 5.7, 8.0 and 9.7 and MariaDB 10.11 and 11.8 with `--verbose --help`, and
`tests/contract/test_check.py` asks them again: numbers out of range are adjusted, what is no number or no
member of an enumeration stops the start, what is no boolean is ignored.
"""

from __future__ import annotations

import difflib
import re

import msgspec

from flushlab.record import Value
from flushlab.settings.catalog import SettingHere

LARGE_SUFFIXES_SINCE = (8, 0, 14)
"""First MySQL that takes T, P and E (its release notes); MariaDB takes them in all versions known here."""

_NUMBER = re.compile(r"([+-]?)(\d+)(?:([a-zA-Z]).*)?")
"""Behind the first letter the servers read nothing: `1GB` is `1G`."""
_POWER = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_ON, _OFF = ("ON", "TRUE", "1"), ("OFF", "FALSE", "0")
_POWERS_OF_TWO = ("innodb_page_size", "innodb_log_write_ahead_size")
_CHUNK_BYTES = 128 << 20
_INSTANCES_FROM_BYTES = 1 << 30
_NEAR = 0.85
"""How alike a member of a set must be to be named as the one that was meant."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What the server makes of one text.

    Attributes:
        value: what is in force; None if the server does not start.
        kind: of the mistake: `wrong-type`, `out-of-range`, `rounded`, `not-a-switch`; empty if there is none.
        text: the mistake in words.
        fatal: the server does not start.
        hint: the way out.
    """

    value: Value | None
    kind: str = ""
    text: str = ""
    fatal: bool = False
    hint: str | None = None


def read(here: SettingHere, text: str | None) -> Reading:
    """What this server makes of an option's text; None stands for an option without a value."""
    if here.entry.switch:
        return _switch(here, text)
    if here.type == "string":
        return Reading(value=text or "")
    if here.type == "set":
        return _set(here, text)
    if here.type == "boolean":
        return _boolean(here, text)
    if here.type == "enumeration":
        return _enumeration(here, text)
    if text is None:
        return _refused("has no value")
    if not text:
        return _refused("is empty")
    return _float(here, text) if here.type == "float" else _integer(here, text)


def negated(here: SettingHere) -> Reading:
    """What `skip_NAME` and `disable_NAME` mean: OFF, or 0 for a number."""
    if here.type in ("boolean", "enumeration"):
        return Reading(value="OFF") if here.same("OFF", "OFF") else _refused("cannot be switched off")
    reading = read(here, "0")
    if reading.kind or reading.value is None:
        return reading
    return Reading(value=reading.value, kind="prefix", text="is a number: skip_ and disable_ make it 0")


def pool_bytes(here: SettingHere, size: int, chunk: int | None, instances: int | None) -> int:
    """The buffer pool that a size becomes at the start: MySQL rounds up to whole chunks in each instance.

    From 8.4 on the number of instances depends on the machine; then the size is left as it is.
    """
    if here.flavor == "mariadb" or (here.version >= (8, 4) and instances is None):
        return size
    many = size >= _INSTANCES_FROM_BYTES
    count = (instances or 8) if many else 1
    unit = min(chunk or _CHUNK_BYTES, size // count) * count
    return -(-size // unit) * unit


def _refused(text: str, kind: str = "wrong-type", hint: str | None = None) -> Reading:
    return Reading(value=None, kind=kind, text=text, fatal=True, hint=hint)


def _switch(here: SettingHere, text: str | None) -> Reading:
    if text is None or text.upper() not in (*_ON, *_OFF):
        return Reading(value="ON")
    wanted = "leave the value out" if text.upper() in _ON else f"write skip_{here.name}"
    return Reading(
        value="ON",
        kind="not-a-switch",
        text=f"takes a file name, so this writes a log named {text}; {wanted}",
    )


def _boolean(here: SettingHere, text: str | None) -> Reading:
    if text is None or text.upper() in _ON:
        return Reading(value="ON")
    if text.upper() in _OFF:
        return Reading(value="OFF")
    return Reading(
        value=here.parse(here.default),
        kind="wrong-type",
        text=f"is {text!r}, which is neither ON nor OFF: the server ignores it and keeps {here.default}",
    )


def _enumeration(here: SettingHere, text: str | None) -> Reading:
    if text is None:
        return _refused("has no value")
    spelled = {value.upper(): value for value in here.values}
    spelled |= {spelling.upper(): value for spelling, value in here.spellings.items()}
    if text.upper() in spelled:
        return Reading(value=spelled[text.upper()])
    if text.isdecimal() and int(text) < len(here.values):
        return Reading(value=here.values[int(text)])
    begin = [value for name, value in spelled.items() if text and name.startswith(text.upper())]
    if len(set(begin)) == 1:
        return Reading(value=begin[0])
    near = difflib.get_close_matches(text.upper(), spelled, n=1)
    hint = f"did you mean {spelled[near[0]]}?" if near else f"write one of {', '.join(here.values)}"
    return _refused(f"is {text!r}, which is not one of its values", hint=hint)


def _set(here: SettingHere, text: str | None) -> Reading:
    """A list without blanks of members, each by the beginning of its name; or their bits as a number."""
    if text is None:
        return _refused("has no value")
    if not text or (text.isdecimal() and int(text) < 1 << 2 * len(here.values)):
        return Reading(value=text)
    for part in text.split(","):
        member = part.strip().upper()
        if part != part.strip():
            return _refused("has blanks between its values", hint="write the list without blanks")
        begin = [value for value in here.values if value.startswith(member)]
        if not member or (member not in here.values and len(begin) != 1):
            near = difflib.get_close_matches(member, here.values, n=1, cutoff=_NEAR)
            meant = f"did you mean {near[0]}?" if near else f"remove {part or 'the comma'} from the list"
            return _refused(f"contains {part!r}, which is not one of its values", hint=meant)
    return Reading(value=text)


def _float(here: SettingHere, text: str) -> Reading:
    try:
        number = float(text)
    except ValueError:
        return _refused(f"is {text!r}, which is not a number")
    return _bounded(here, number, text)


def _integer(here: SettingHere, text: str) -> Reading:
    match = _NUMBER.fullmatch(text)
    suffixes = "KMGTPE" if here.flavor == "mariadb" or here.version >= LARGE_SUFFIXES_SINCE else "KMG"
    if match is None or (match[3] and match[3].upper() not in suffixes):
        return _refused(
            f"is {text!r}; the server takes whole numbers, optionally followed by {', '.join(suffixes)}"
        )
    number = int(match[2]) << _POWER[(match[3] or "").upper()]
    if match[1] == "-" and number and here.flavor == "mariadb":
        return _refused(f"is {text!r}; MariaDB takes no negative numbers", "out-of-range")
    return _bounded(here, -number if match[1] == "-" else number, text)


def _bounded(here: SettingHere, number: int | float, text: str) -> Reading:
    low, high = here.minimum, here.maximum
    value = number
    if low is not None and number < low:
        value = low
    if high is not None and number > high:
        value = high
    if isinstance(value, int):
        value = value // here.multiple * here.multiple
    if number != value and (number < (low or 0) or (high is not None and number > high)):
        rule = f"{here.name} takes {here.describe_range()}"
        return Reading(
            value=value, kind="out-of-range", text=f"is {text}; {rule}, and the server changes it to {value}"
        )
    if here.name in _POWERS_OF_TWO and isinstance(value, int) and value & (value - 1):
        if here.name == "innodb_page_size":
            return _refused(f"is {text}, which is not a power of 2", "out-of-range")
        down = 1 << (value.bit_length() - 1)
        return Reading(
            value=down, kind="rounded", text=f"is {text}; the server changes it to {down}, a power of 2"
        )
    if number != value:
        return Reading(value=value, kind="rounded", text=f"is {text}; the server changes it to {value}")
    return Reading(value=value)
