"""A comparison scales option files alike, and puts common settings beneath its configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import flushlab
from flushlab.campaign.request import SeriesRequest
from flushlab.errors import UnknownSetting, UsageError
from flushlab.report.stored import command
from flushlab.workload.parse import fingerprint

G = 1 << 30


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    """Option files of the folder, and how large a pool each sets."""
    sizes = {"my.cnf": 1 * G, "new.cnf": 4 * G}

    def settings(path: Path | None, *_: object) -> Mapping[str, int]:
        return {"innodb_buffer_pool_size": sizes[path.name]} if path else {}

    monkeypatch.chdir(tmp_path)
    for name in sizes:
        Path(name).write_text("[mysqld]\n")
    monkeypatch.setattr("flushlab.campaign.pool.settings.file_settings", settings)
    return sizes


def test_files_that_are_scaled_are_named_with_the_true_reason(
    decided: list[Any], pools: dict[str, int]
) -> None:
    said: list[str] = []
    flushlab.compare(["my.cnf", "new.cnf"], memory="600M", progress=said.append)
    mine, new = (said[index : index + 3] for index, line in enumerate(said) if " is scaled to " in line)
    assert mine[0].startswith("my.cnf is scaled to 600 MiB") and new[0].startswith("new.cnf is scaled to")
    assert "as that of new.cnf had to be" in mine[2]
    assert "of memory are left for it" in new[2]


@pytest.mark.parametrize("words", [["my.cnf", "sync_binlog=0"], ["my.cnf", "new.cnf"]])
def test_a_file_that_is_scaled_most_points_at_no_other(
    words: list[str], decided: list[Any], pools: dict[str, int]
) -> None:
    pools["new.cnf"] = pools["my.cnf"]
    said: list[str] = []
    flushlab.compare(words, memory="600M", progress=said.append)
    assert "had to be" not in "\n".join(said)


@pytest.mark.parametrize(
    "run",
    [
        lambda: flushlab.compare(["base", "sync_binlog=0"], memory="10M"),
        lambda: flushlab.series("throwaway", memory="10M"),
        lambda: flushlab.bench(memory="10M"),
    ],
)
def test_memory_without_an_option_file_that_it_scales_is_refused(run: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="--memory 10M scales an option file, and there is none"):
        run()


def test_too_many_blocks_are_refused_by_their_own_name() -> None:
    with pytest.raises(UsageError, match="--blocks 1000000 is out of range") as caught:
        flushlab.compare(["base", "sync_binlog=0"], blocks=1_000_000)
    assert "it takes 2 to 1000" in (caught.value.hint or "")


def test_settings_that_mean_the_same_are_refused_unless_a_label_tells_them_apart(decided: list[Any]) -> None:
    with pytest.raises(UsageError, match="'sync_binlog=1K' means the same as 'sync-binlog=1024'"):
        flushlab.compare(["base", "sync-binlog=1024", "sync_binlog=1K"])
    flushlab.compare(["base", "sync-binlog=1024", "again: sync_binlog=1K"])
    assert len(decided) == 1


def test_a_comparison_in_which_nothing_can_be_compared_is_an_error(decided: list[Any]) -> None:
    with pytest.raises(
        UsageError, match=r"base has nothing to be compared with: wsrep_slave_threads=4: .*cluster"
    ):
        flushlab.compare(["base", "wsrep_slave_threads=4"])
    assert not decided


def test_common_settings_are_beneath_the_own_ones_of_every_configuration(decided: list[Any]) -> None:
    flushlab.compare(
        ["base", "sync_binlog=0", "innodb_flush_log_at_trx_commit=1"],
        settings={"innodb-flush-log-at-trx-commit": "2", "sync_binlog": "7"},
    )
    request = decided[0]
    assert request.base.settings == {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 7}
    assert {arm.name: arm.settings for arm in request.arms} == {
        "sync_binlog=0": {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0},
        "innodb_flush_log_at_trx_commit=1": {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 7},
    }
    assert [dict(arm.changes) for arm in request.arms] == [
        {"sync_binlog": 0},
        {"innodb_flush_log_at_trx_commit": 1},
    ]


def test_common_settings_are_stored_and_repeated_with_the_campaign(decided: list[Any]) -> None:
    flushlab.compare(["base", "sync_binlog=0"], settings={"innodb_flush_log_at_trx_commit": "2"})
    back = msgspec.json.decode(msgspec.json.encode(decided[0]), type=SeriesRequest)
    assert "--set innodb_flush_log_at_trx_commit=2" in command(back)


def test_common_settings_that_a_configuration_repeats_make_it_the_base(decided: list[Any]) -> None:
    with pytest.raises(UsageError, match="'sync_binlog=0' means the same as 'base'"):
        flushlab.compare(["base", "sync_binlog=0"], settings={"sync_binlog": "0"})


def test_a_comparison_of_a_command_finds_the_same_workload_when_it_goes_on(decided: list[Any]) -> None:
    flushlab.compare(["base", "sync_binlog=0"], workload="command: true")
    (request,) = decided
    assert isinstance(request, SeriesRequest)
    for arm in (request.base, *request.running):
        assert arm.workload_digest == fingerprint(request.workload_of(arm))


def test_a_misspelled_common_setting_is_refused_before_anything_starts(decided: list[Any]) -> None:
    with pytest.raises(UnknownSetting, match="sync_binlg is not a setting") as caught:
        flushlab.compare(["base", "sync_binlog=0"], settings={"sync_binlg": "1"})
    assert "sync_binlog" in (caught.value.hint or "")
    assert not decided


def test_a_campaign_that_is_resumed_takes_no_further_settings() -> None:
    with pytest.raises(UsageError, match="--resume takes no --set"):
        flushlab.compare(resume="compare-20261126-1", settings={"sync_binlog": "0"})
