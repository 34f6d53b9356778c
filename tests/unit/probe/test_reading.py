from __future__ import annotations

import pytest

from flushlab.probe.reading import bound, duration, headline, rate, read
from tests.unit.probes import CEILINGS, SHARE, ceiling, disk_result, probe_record

STRICT_64, SECOND_64 = CEILINGS[2], CEILINGS[6]


def sentence(record_text: tuple[str, ...], beginning: str) -> str:
    return next(one for one in record_text if one.startswith(beginning))


def test_the_reading_of_a_disk_names_its_sync_and_its_pairs() -> None:
    words = sentence(read(probe_record()), "One 4 KiB write")
    assert "takes 500 µs (p99 1.5 ms), 2,000/s" in words
    assert "a single connection gets 1,000 commits/s at most" in words


def test_no_cell_of_the_table_lies_above_what_one_connection_gets_at_most() -> None:
    record = probe_record(ceilings=(ceiling("1/1", "serial", 1, 1_570), *CEILINGS[1:]))
    assert "a single connection gets 1,570 commits/s at most" in read(record)[0]


def test_strict_is_bound_by_fsync_and_parallel_is_not_permitted_there() -> None:
    words = sentence(read(probe_record()), "At strict 1/1")
    ceiling_words = (
        "the disk's ceiling is 21,000 commits/s with 64 connections and 950 with one: fsync is the limit."
    )
    assert ceiling_words in words
    assert "Binlog strategy parallel is not permitted there." in words
    assert "gets above it" not in words, "it is a third of the bound: 1,000 pairs/s × 64"


def test_only_a_ceiling_that_reaches_the_bound_is_said_to_be_one() -> None:
    def told(commits_per_s: float) -> bool:
        cells = (*CEILINGS[:2], ceiling("1/1", "serial", 64, commits_per_s), *CEILINGS[3:])
        words = sentence(read(probe_record(ceilings=cells)), "At strict 1/1")
        return "No setting with two fsyncs in a row gets above it." in words

    assert told(55_000)
    assert not told(100_000), "above 1,000 pairs/s × 64: one of both was disturbed"


def test_second_tells_its_risk() -> None:
    words = sentence(read(probe_record()), "At second 2/1000")
    assert "would have lost 100 MiB of acknowledged commits" in words


def test_a_pipeline_helps_a_server_if_its_whole_interval_says_so() -> None:
    strict, second = (one for one in read(probe_record()) if one.startswith("As in a server"))
    assert strict.startswith(
        "As in a server with 64 connections and 60 µs of its own time per commit, serial makes 9,000"
        " commits/s at strict 1/1."
    )
    assert "redo makes 1.50× [1.42, 1.58] of that: a binlog that the redo log makes durable" in strict
    assert "binlog_storage_engine=innodb) would help here." in strict
    assert "syncing both logs at the same time (the bound of TXSQL's overlap) may help here" in strict
    assert "parallel makes 1.02× [1.01, 1.04] of that: Binlog Parallel Flush" in second
    assert second.endswith("would not help here.")


def test_gains_on_more_processors_are_told_with_their_interval_beside_what_was_published() -> None:
    strict, second = (one for one in read(probe_record()) if one.startswith("Computed upper bounds"))
    assert strict.endswith("redo 2.00× (the disk's limit), two-syncs 1.00× (the disk's limit) of serial.")
    assert second.startswith(
        "Computed upper bounds for 16 and 64 processors at second 2/1000: parallel 1.51× ["
    )
    assert "The intervals hold 30 µs to 120 µs of a server's own time." in second
    assert second.endswith("Published for Binlog Parallel Flush: 1.10× to 1.30× on 16 and 64 processors.")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"fsyncs_per_s": 1_800.0}, "fsync"),
        ({"commits_per_s": 170_000, "cpu_us_per_commit": 10.0}, "cpu"),
        ({"commits_per_s": 100_000, "ordered_ns_per_commit": 8_000.0}, "order"),
        ({"commits_per_s": 10_000}, "waiting"),
        ({"commits_per_s": 10_000, "cpu_us_per_commit": None, "ordered_ns_per_commit": None}, "waiting"),
    ],
)
def test_what_bounds_a_ceiling_is_what_is_busy(changes: dict[str, float], what: str) -> None:
    rates = {"commits_per_s": 10_000.0, **changes}
    one = ceiling("2/1000", "serial", 64, rates.pop("commits_per_s"), **rates)
    assert bound(one, probe_record()) == what


def test_a_growing_file_is_told_only_where_it_is_slower() -> None:
    assert any("syncs 2.0× slower" in one for one in read(probe_record()))
    same = probe_record(
        disk=(disk_result("fdatasync", 500), disk_result("fdatasync", 520, layout="extending"))
    )
    assert not any("slower" in one for one in read(same))


def test_a_measured_server_is_read_beside_its_ceiling() -> None:
    words = read(probe_record(against=(SHARE,)))[-1]
    assert "mysql@9.7.0 (tune-20261121-104206-79a6:12) reaches 20% of the ceiling at second 2/1000" in words
    assert "With binlog strategy parallel, the ceiling is 240,000." in words


def test_nothing_measured_gives_no_words() -> None:
    assert read(probe_record(disk=(), servers=(), ceilings=())) == ()
    assert headline(probe_record(servers=(), ceilings=())) == "What this disk allows"


def test_the_headline_has_the_ratios_with_their_intervals_else_the_ceilings() -> None:
    assert headline(probe_record()) == (
        "Against serial: redo 1.50× [1.42, 1.58] at strict 1/1, parallel 1.02× [1.01, 1.04] at second 2/1000,"
        " as in a server with 64 connections"
    )
    assert (
        headline(probe_record(servers=()))
        == "21,000 commits/s at strict 1/1, 150,000 commits/s at second 2/1000 with 64 connections"
    )
    assert STRICT_64.commits_per_s < SECOND_64.commits_per_s


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.4, "400 ns"),
        (1.66, "1.7 µs"),
        (51.2, "51 µs"),
        (2_345, "2.3 ms"),
        (2_345_000, "2.3 s"),
        (999_900, "1.0 s"),
        (150_400, "150 ms"),
        (120e6, "120 s"),
    ],
)
def test_durations_have_the_unit_that_fits(us: float, text: str) -> None:
    assert duration(us) == text


@pytest.mark.parametrize(
    ("value", "text"), [(21_040, "21,000"), (949.6, "950"), (149_996, "150,000"), (0, "0")]
)
def test_rates_show_three_digits(value: float, text: str) -> None:
    assert rate(value) == text
