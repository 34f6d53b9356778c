from __future__ import annotations

from pathlib import Path

import pytest

from flushlab.datadir import named_disks, open_volume, parse_disk
from flushlab.datadir.fault_disk import Delay
from flushlab.datadir.slow_disk import corrected, is_believed, noise
from flushlab.errors import UsageError
from flushlab.record import DiskProfile, RequestLatency


def test_words_say_how_slow_a_disk_is() -> None:
    assert parse_disk("flush=1ms,write=0.1ms/0.5ms,iops=3000,bandwidth=125M/s") == DiskProfile(
        name="flush=1ms,write=0.1ms/0.5ms,iops=3000,bandwidth=125M/s",
        flush=RequestLatency(p50_us=1000, p99_us=1000),
        write=RequestLatency(p50_us=100, p99_us=500),
        iops=3000,
        bytes_per_s=125 << 20,
    )


@pytest.mark.parametrize("name", named_disks())
def test_every_named_disk_can_be_emulated_and_has_a_source(name: str) -> None:
    assert parse_disk(name).name == name
    assert named_disks()[name].source


def test_words_after_a_name_replace_its_figures() -> None:
    named, changed = parse_disk("gp3"), parse_disk("gp3,iops=16000")
    assert changed.iops == 16000
    assert (changed.write, changed.bytes_per_s) == (named.write, named.bytes_per_s)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gp4", "no disk is named 'gp4'"),
        ("flush=0.05ms", "cannot be emulated"),
        ("flush=5ms/1ms", "is not a disk latency"),
        ("flush=2s", "is not a disk latency"),
        ("flush=soon", "--disk flush=soon is not a latency"),
        ("gp3,flush", "--disk flush= is not a latency"),
        ("flush=1ms,iops=1", "--disk iops=1 is out of range"),
        ("bandwidth=1K", "--disk bandwidth=1K is out of range"),
        ("flush=1ms,iops=0", "--disk iops=0 is out of range"),
        ("flush=1ms,speed=3", "'speed=3' is not understood"),
        ("flush=1ms,flush=2ms", "has flush= twice"),
        ("gp3,iops=1000,iops=2000", "has iops= twice"),
        ("flush=1ms,", "'' is not understood"),
        ("", "no disk is named ''"),
    ],
)
def test_what_is_no_disk_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_disk(text)
    assert refused.value.hint


def test_what_is_no_disk_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no disk is named"), open_volume(tmp_path / "new", "gp4"):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("asked_us", "measured_us", "believed"),
    [(8400, 8700, True), (8400, 4000, False), (8400, 20_000, False), (700, 1100, True), (700, 60, False)],
)
def test_a_disk_is_believed_near_what_was_asked_for(
    asked_us: float, measured_us: float, believed: bool
) -> None:
    assert is_believed(asked_us, measured_us) is believed


ALONE = Delay(flush_us=60, write_us=50)


@pytest.mark.parametrize(
    ("disk", "off_us", "flush_us", "write_us"),
    [
        ("flush=2ms,write=0.5ms", 100, 160, 50),
        ("flush=2ms,write=0.5ms", 2500, 310, 50),  # other load: no more than a tenth
        ("flush=2ms,write=0.5ms", -70, 0, 50),  # nothing takes less than no time
        ("flush=0.1ms,write=1ms", 80, 60, 130),  # the slower of the two has the room
        ("iops=100", 10_000, 60, 50),  # no latency to take it off
    ],
)
def test_what_waking_up_takes_is_taken_off_the_slower_request(
    disk: str, off_us: float, flush_us: float, write_us: float
) -> None:
    profile = parse_disk(disk)
    parts = [one.p50_us for one in (profile.flush, profile.write) if one is not None]
    assert corrected(ALONE, ALONE, profile, sum(parts) or 10_000.0, off_us) == Delay(
        flush_us=flush_us, write_us=write_us
    )


def test_looks_do_not_add_up_to_more_than_waking_up_takes() -> None:
    profile, way = parse_disk("flush=2ms"), ALONE
    for _ in range(5):
        way = corrected(way, ALONE, profile, 2000.0, 900.0)
    assert way == Delay(flush_us=260, write_us=50)


def test_a_median_that_is_off_by_chance_is_none_to_learn_from() -> None:
    steady = RequestLatency(p50_us=2000.0, p99_us=2000.0)
    assert noise(steady, 0.5) == 0.02
    tailed = RequestLatency(p50_us=2000.0, p99_us=8000.0)  # 250 of them, a spread of 0.6
    assert noise(tailed, 0.5) == pytest.approx(2 * 1.25 * 0.596 / 15.8, rel=0.01)
