from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from flushlab.record import Ratio
from flushlab.report import plots
from flushlab.report.document import Plot
from flushlab.report.subject import Activity, Rounds, Throughput


def ratio(estimate: float, low: float, high: float) -> Ratio:
    return Ratio(estimate=estimate, low=low, high=high)


def line(seconds: tuple[int, ...], stalled: tuple[int, ...] = ()) -> Throughput:
    return Throughput("arm", seconds, stalled=stalled)


def drawn(make: Callable[..., Plot]) -> Callable[..., str]:
    return lambda *data, **words: plots.svg(make(*data, **words))


forest_svg, seconds_svg = drawn(plots.forest), drawn(plots.seconds)
rounds_svg, stacked_svg = drawn(plots.rounds), drawn(plots.stacked)


def forest(*found: Ratio, name: str = "ratios") -> str:
    rows = [plots.Row(f"arm {n}", one, "good", "n×") for n, one in enumerate(found)]
    return forest_svg(rows, name=name, title="a title")


def ticks(svg: str) -> list[str]:
    return re.findall(r">([0-9.]+×)</text>", svg)


def test_a_plot_is_well_formed_and_named_for_those_who_cannot_see_it() -> None:
    root = ElementTree.fromstring(forest(ratio(1.5, 1.4, 1.6)))
    assert root.get("role") == "img"
    title = root.find("title")
    assert title is not None and title.text == "a title"
    assert root.get("aria-labelledby") == title.get("id")


def test_names_are_shown_as_they_are_written() -> None:
    row = plots.Row("$x^2$ <b>&amp; font-size: 9px #0101", ratio(1.5, 1.4, 1.6), "good", "")
    root = ElementTree.fromstring(forest_svg([row], name="ratios", title=""))
    assert "$x^2$ <b>&amp; font-size: 9px #0101" in [text.text for text in root.iter("text")]


def test_two_plots_of_a_page_share_no_id() -> None:
    one, other = (re.findall(r' id="([^"]+)"', forest(ratio(1.5, 1.4, 1.6), name=name)) for name in "ab")
    assert one and not set(one) & set(other)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (ratio(1.01, 0.99, 1.03), ["0.99×", "1×", "1.01×", "1.02×", "1.03×", "1.04×"]),
        (ratio(1.5, 1.2, 1.9), ["1×", "1.2×", "1.4×", "1.6×", "1.8×"]),
        (ratio(27.0, 15.0, 51.0), ["1×", "2×", "5×", "10×", "20×", "50×"]),
        (ratio(0.02, 0.001, 900.0), ["0.001×", "0.01×", "0.1×", "1×", "10×", "100×", "1000×"]),
        (ratio(1.0, 1.0, 1.0), ["0.995×", "1×", "1.005×", "1.01×"]),
    ],
)
def test_ratios_have_a_few_round_ticks_with_1_among_them(found: Ratio, wanted: list[str]) -> None:
    assert ticks(forest(found)) == wanted


def test_a_better_ratio_stands_further_right() -> None:
    svg = forest(ratio(0.5, 0.4, 0.6), ratio(2.0, 1.8, 2.2))
    worse, better = (float(x) for x in re.findall(r'<use [^>]*x="([0-9.]+)"', svg))
    assert worse < better


def test_a_short_series_is_drawn_second_by_second() -> None:
    svg = seconds_svg([line((5, 7, 6))], unit="transactions/s", name="time", title="")
    assert "fill-opacity" not in svg


def test_a_long_series_keeps_its_extremes_in_a_band_and_stays_small() -> None:
    long = tuple(1000 + n % 7 for n in range(100_000))
    flat = seconds_svg([line(long)], unit="transactions/s", name="time", title="")
    spiked = seconds_svg(
        [line((*long[:50_000], 0, *long[50_001:]), (50_000,))], unit="transactions/s", name="time", title=""
    )
    assert "opacity" in flat
    assert len(flat) < 40_000
    lowest = [max(float(y) for y in re.findall(r"[ML] [0-9.]+ ([0-9.]+)", svg)) for svg in (flat, spiked)]
    assert lowest[1] >= lowest[0]
    assert spiked.count("<use") == flat.count("<use") + 1  # the triangle of the stalled second


def test_thousands_of_stalls_are_no_more_marks_than_fit() -> None:
    svg = seconds_svg(
        [line((0, 10) * 5_000, tuple(range(0, 10_000, 2)))], unit="transactions/s", name="time", title=""
    )
    assert 100 < svg.count("<use") <= plots.POINTS + 1


def test_a_series_of_nothing_but_zeros_can_be_drawn() -> None:
    assert "<svg" in seconds_svg([line((0, 0, 0), (0, 1, 2))], unit="transactions/s", name="time", title="")


def test_a_window_of_one_second_is_a_line() -> None:
    svg = seconds_svg([line((5,)), line((5, 6, 7))], unit="transactions/s", name="time", title="")
    blue, grey = (re.findall(rf'd="([^"]+)"[^>]*stroke: var\(--{ink}\)', svg) for ink in ("accent", "mute"))
    assert [path.count(" L ") for path in (*grey, *blue)] == [1, 2]


def test_a_sum_of_which_a_part_is_not_told_is_a_bound() -> None:
    rows = [
        Activity("told", ("redo", "data"), {"fsyncs": {"redo": 1.0, "data": 0.5}}, {}),
        Activity("not told", ("redo", "data"), {"fsyncs": {"data": 0.25}}, {}),
        Activity("hidden", ("redo", "binlog"), {"fsyncs": {"redo": 2.5}}, {}),
        Activity("no data files", ("redo",), {"fsyncs": {"redo": 3.5}}, {}),
    ]
    svg = stacked_svg(rows, "fsyncs", ["1.5", "0.25", "2.5", "3.5"], title="")
    assert ">1.5</text>" in svg
    assert ">≥ 0.25</text>" in svg
    assert ">≥ 2.5</text>" in svg
    assert ">3.5</text>" in svg


def test_slices_are_drawn_where_they_were_measured_and_dropped_ones_as_crosses() -> None:
    kept = tuple((10.0 + n, 100.0 + n) for n in range(1_000))
    plain = rounds_svg(
        [Rounds("arm", kept, (), (0.5, 0.5), None)], unit="transactions/s", name="time", title=""
    )
    crossed = rounds_svg(
        [Rounds("arm", kept, ((15.0, 3.0),), (0.5, 0.5), None)], unit="transactions/s", name="time", title=""
    )
    assert plain.count("<use") <= plots.POINTS
    assert crossed.count("<use") == plain.count("<use") + 1
    assert "var(--bad)" in crossed and "var(--bad)" not in plain


def test_a_long_name_takes_several_lines_above_its_row_and_pushes_the_next_row_down() -> None:
    words = ("mysql@8.0.15", "innodb_flush_log_at_trx_commit=2", "innodb_doublewrite=OFF", "sync_binlog=1000")
    long = " ".join(words)
    rows = [plots.Row(name, ratio(1.5, 1.4, 1.6), "good", "1.50×") for name in ("A", long, "B")]
    svg = forest_svg(rows, name="ratios", title="")
    written = [text.text or "" for text in ElementTree.fromstring(svg).iter("text")]
    assert sorted(word for line in written if line in long for word in line.split()) == sorted(words)
    first, second, third = (float(y) for y in re.findall(r'<use [^>]*y="([0-9.]+)"', svg))
    assert (second - first) - (third - second) == 15 * (
        sum(line in long for line in written if line not in "AB") - 1
    )
