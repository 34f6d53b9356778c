import pytest
from hypothesis import given
from hypothesis import strategies as st

from flushlab.errors import UsageError
from flushlab.units import format_latency, format_seconds, format_size, option_size, parse_latency, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("134217728", 134217728),
        ("128M", 1 << 27),
        ("1.5g", 3 << 29),
        (" 2GiB ", 2 << 30),
        ("16KB", 16384),
    ],
)
def test_sizes_are_read_as_option_files_spell_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "1 2", "0x10"])
def test_what_is_no_size_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_size(text)
    assert raised.value.hint


@given(st.integers(min_value=0, max_value=1 << 60))
def test_option_size_keeps_every_byte(size: int) -> None:
    assert parse_size(option_size(size)) == size


def test_sizes_and_durations_read_well() -> None:
    assert [format_size(s) for s in (17, 1536, 1 << 27, 3 << 29)] == ["17 B", "1.5 KiB", "128 MiB", "1.5 GiB"]
    assert [format_seconds(s) for s in (0.26, 42, 380, 3900)] == ["0.3 s", "42 s", "6 min 20 s", "1 h 5 min"]


@pytest.mark.parametrize(("text", "seconds"), [("1ms", 0.001), ("500 us", 0.0005), ("0.01s", 0.01)])
def test_latencies_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_latency(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["1", "ms", "-1ms", "1 min"])
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a latency"):
        parse_latency(text)


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(45, "0.045 ms"), (980, "0.98 ms"), (12_345, "12.3 ms"), (1_234_000, "1,234 ms")],
)
def test_latencies_are_milliseconds_whatever_their_size(microseconds: float, text: str) -> None:
    assert format_latency(microseconds) == text
