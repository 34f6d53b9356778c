"""Whether rows fit on a disk."""

from __future__ import annotations

import pytest

from flushlab.bulk.preflight import FreeSpace, space_warning
from flushlab.errors import UsageError

GIB = 1 << 30
SMALL = FreeSpace(path="/data", free_bytes=10 * GIB)


def test_rows_that_take_several_times_what_is_free_are_refused() -> None:
    space_warning(SMALL, 39 * GIB)
    with pytest.raises(
        UsageError, match=r"^about 41\S* GiB of rows are to come, and 10\S* GiB are free in /data$"
    ) as refused:
        space_warning(SMALL, 41 * GIB)
    assert "--data-root" in str(refused.value.hint)


def test_rows_that_may_not_fit_are_a_caveat() -> None:
    assert space_warning(SMALL, 5 * GIB) is None
    found = space_warning(SMALL, 8 * GIB)
    assert found is not None and found.slug == "disk-space" and "/data: they may not fit" in found.text
