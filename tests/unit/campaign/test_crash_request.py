"""What a crash campaign is asked for and makes no sense is refused before anything starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.campaign.crash.request import require_in_range
from flushlab.errors import UsageError
from tests.unit.crashes import REQUEST


@pytest.mark.parametrize(
    ("asked", "complaint", "hint"),
    [
        ({"lying_flushes": -1}, "--lying-flushes -1 is out of range", "it takes 1 to 1000000"),
        ({"lying_flushes": 1 << 64}, "--lying-flushes 18446744073709551616 is", "it takes 1 to 1000000"),
        ({"disk_size": 10_000_000}, "--disk-size 10000000 is out of range", "it takes 256 to 65536"),
        ({"images": 100_000_000}, "--images 100000000 is out of range", "it takes 1 to 100000"),
        ({"seconds": 0.05}, "--seconds 0.05 is out of range", "it takes 0.2 to 600"),
        ({"seconds": 700.0}, "--seconds 700 is out of range", "it takes 0.2 to 600"),
        ({"fs": "zfs"}, "--fs 'zfs' is not known", "there are ext4"),
    ],
)
def test_what_is_out_of_range_is_refused_as_it_was_typed(
    asked: dict[str, Any], complaint: str, hint: str
) -> None:
    require_in_range(REQUEST)
    with pytest.raises(UsageError) as refused:
        require_in_range(msgspec.structs.replace(REQUEST, **asked))
    assert complaint in refused.value.message
    assert hint in (refused.value.hint or "")
