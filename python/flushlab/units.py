"""Units: sizes and durations, between people's spelling and plain numbers."""

from __future__ import annotations

import re
from decimal import Decimal

from flushlab.errors import UsageError

_SUFFIX = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:I?B)?\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Suffixes are powers of 1024: `128M`, `1.5G`, `2GiB`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a size", hint="give bytes, or a number with K, M, G or T, such as 512M"
        )
    return int(Decimal(match[1]) * _SUFFIX[match[2].upper()])


def format_size(size_bytes: float) -> str:
    value, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.1f} {unit}"


def option_size(size_bytes: int) -> str:
    """Exactly: `128M`, `1536M`; no suffix above G, since MySQL before 8.0.14 refuses T."""
    for suffix in ("G", "M", "K"):
        unit = _SUFFIX[suffix]
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{suffix}"
    return str(size_bytes)


def value_words(value: float | str) -> str:
    """A value of a setting, a whole number of MiB as an option file has it."""
    is_round = isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0
    return option_size(int(value)) if is_round else str(value)


def counted(count: int, noun: str) -> str:
    if count != 1:
        noun = (
            noun[:-2] + "es" if noun.endswith("sis") else noun + ("es" if noun.endswith(("sh", "s")) else "s")
        )
    return f"{count:,} {noun}"


def format_seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


def format_spread(least_s: float, most_s: float) -> str:
    return " to ".join(dict.fromkeys(map(format_seconds, (least_s, most_s))))


def parse_latency(text: str) -> float:
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", text.strip().lower())
    if found is None:
        raise UsageError(f"{text!r} is not a latency", hint="for example 1ms or 500us")
    return float(found[1]) * units[found[2]]


def format_latency(microseconds: float) -> str:
    ms = microseconds / 1000
    return f"{ms:,.{3 if ms < 0.1 else 2 if ms < 10 else 1 if ms < 1000 else 0}f} ms"
