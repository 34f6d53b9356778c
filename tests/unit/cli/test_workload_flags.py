from __future__ import annotations

import pytest

from flushlab.cli.workload_flags import read
from flushlab.errors import UsageError
from flushlab.record import Value


@pytest.mark.parametrize(
    ("arguments", "due"),
    [
        ([], {}),
        (["--point-selects", "5"], {"point_selects": 5}),
        (["--point-selects=5", "--rand-zipfian-exp=0.9"], {"point_selects": 5, "rand_zipfian_exp": 0.9}),
        (["--point_selects=5"], {"point_selects": 5}),
        (["--skip-trx"], {"skip_trx": "on"}),
        (["--skip-trx", "--range-size", "7"], {"skip_trx": "on", "range_size": 7}),
        (["--skip-trx=OFF"], {"skip_trx": "off"}),
        (["--auto-inc", "off", "--secondary", "on"], {"auto_inc": "off", "secondary": "on"}),
    ],
)
def test_options_are_read_as_sysbench_reads_them(arguments: list[str], due: dict[str, Value]) -> None:
    assert read(arguments, []) == due


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--point-selecs=5"], "no such option: --point-selecs", "did you mean --point-selects?"),
        (["--thread", "5"], "no such option: --thread", "did you mean --threads?"),
        (["prepare"], "unexpected argument 'prepare'", "see --help"),
        (["--point-selects"], "--point-selects requires an argument", "SELECTs by id"),
        (["--point-selects", "many"], "--point-selects is 'many'; it takes a whole number", ""),
        (["--point-selects=1.5"], "--point-selects is 1.5; it takes a whole number", ""),
        (["--skip-trx=perhaps"], "--skip-trx is 'perhaps'; it takes on or off", ""),
        (["--time=60"], "sysbench's option --time is not supported", "--seconds"),
        (["--percentile=99"], "sysbench's option --percentile", "p99.9"),
        (["--mysql-host", "db"], "sysbench's option --mysql-host", "--server"),
    ],
)
def test_what_is_no_option_is_refused_with_the_way_out(arguments: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(arguments, ["--threads", "--tables"])
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_words_between_options_are_left_to_the_command_that_takes_them() -> None:
    words: list[str] = []
    arguments = ["base", "--point-selects", "5", "sync_binlog=0", "--skip-trx", "my.cnf"]
    assert read(arguments, [], words) == {"point_selects": 5, "skip_trx": "on"}
    assert words == ["base", "sync_binlog=0", "my.cnf"]
