from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flushlab.probe.honored_flushes import flush_warnings
from flushlab.record import Medium
from tests.unit.probes import MEDIUM, disk_result


def slugs(medium: Medium, *figures: Any) -> list[str]:
    return [one.slug for one in flush_warnings(medium, figures)]


def on(**changes: Any) -> Medium:
    return msgspec.structs.replace(MEDIUM, **changes)


def test_a_disk_that_takes_its_time_raises_no_caveat() -> None:
    assert slugs(on(), disk_result("fdatasync", 500), disk_result("direct", 40)) == []


def test_a_sync_faster_than_any_medium_did_not_happen() -> None:
    assert slugs(on(), disk_result("fdatasync", 1.7)) == ["fsync-too-fast"]
    assert slugs(on(), disk_result("fdatasync", 15)) == []


def test_persistent_memory_may_be_that_fast() -> None:
    assert slugs(on(disk="pmem0"), disk_result("fdatasync", 1.7)) == []


def test_a_disk_that_spins_cannot_sync_within_a_millisecond() -> None:
    assert slugs(on(disk="sda", rotational=True), disk_result("fdatasync", 200)) == ["fsync-too-fast"]
    assert slugs(on(disk="sda", rotational=True), disk_result("fdatasync", 8_000)) == []


def test_a_flush_that_costs_nothing_is_told_where_the_cache_is_volatile() -> None:
    figures = (disk_result("fdatasync", 44), disk_result("direct", 40))
    assert slugs(on(volatile_cache=True), *figures) == ["flush-is-free"]
    assert slugs(on(volatile_cache=False), *figures) == []
    assert slugs(on(volatile_cache=None), *figures) == []


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"filesystem": "tmpfs", "in_memory": True}, "in-memory"),
        ({"filesystem": "ext4", "options": ("nobarrier",)}, "no-barrier"),
        ({"filesystem": "ext4", "options": ("barrier=0",)}, "no-barrier"),
        ({"filesystem": "overlay", "options": ("volatile",)}, "overlay-volatile"),
        ({"filesystem": "nfs4"}, "other-machine"),
    ],
)
def test_what_the_mount_says_counts(changes: dict[str, Any], slug: str) -> None:
    assert slugs(on(**changes), disk_result("fdatasync", 500)) == [slug]


def test_memory_is_told_once_and_not_by_its_speed() -> None:
    assert slugs(on(in_memory=True), disk_result("fdatasync", 1)) == ["in-memory"]


def test_figures_of_growing_files_and_many_threads_prove_nothing() -> None:
    grown = disk_result("fdatasync", 2, layout="extending")
    assert slugs(on(), grown, disk_result("fdatasync", 2, depth=8)) == []
