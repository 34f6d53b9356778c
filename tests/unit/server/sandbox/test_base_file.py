from __future__ import annotations

import re
from pathlib import Path

import pytest

from flushlab.build.inspect import Answer
from flushlab.datadir import DataRoot
from flushlab.errors import UsageError
from flushlab.record import Storage
from flushlab.server.sandbox.base_file import fit_here, read_base_file
from tests.unit import builds
from tests.unit.settings.servers import MYSQL57

G = 1 << 30
PRODUCTION = {"innodb_buffer_pool_size": 9000 * G, "innodb_log_file_size": 64 << 20}


def root(folder: Path) -> DataRoot:
    return DataRoot(path=folder, storage=Storage(filesystem="ext4"))


def test_what_does_not_fit_is_scaled_to_the_memory_that_is_given(tmp_path: Path) -> None:
    fitted = fit_here(PRODUCTION, MYSQL57, root(tmp_path), memory="64M")
    assert fitted.memory_bytes == 64 << 20
    assert int(str(fitted.settings["innodb_buffer_pool_size"])) < 64 << 20


def test_exact_refuses_what_does_not_fit_and_says_what(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="innodb_buffer_pool_size = 9000G") as caught:
        fit_here(PRODUCTION, MYSQL57, root(tmp_path), exact=True)
    assert "--memory" in str(caught.value.hint)


def test_exact_lets_through_what_fits(tmp_path: Path) -> None:
    small = {"innodb_buffer_pool_size": 16 << 20}
    assert fit_here(small, MYSQL57, root(tmp_path), exact=True).settings == small


@pytest.fixture
def silent_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that says nothing of its options."""
    monkeypatch.setattr(
        "flushlab.server.sandbox.base_file.verbose_help", lambda *_: Answer("", "", refuses=False)
    )


def test_a_text_that_is_no_option_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("hello world\nthis is no option file\n")
    with pytest.raises(UsageError, match=r"text\.txt is not an option file: it has no group"):
        read_base_file(file, builds.MYSQL57, MYSQL57)


@pytest.mark.usefixtures("silent_build")
def test_a_file_for_clients_sets_nothing_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "client.cnf"
    file.write_text("[client]\nport = 3306\n")
    found = read_base_file(file, builds.MYSQL57, MYSQL57)
    assert found.notes == (f"{file}: the file sets nothing for this server: its defaults hold",)


@pytest.mark.usefixtures("silent_build")
def test_an_included_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "inc.cnf"
    file.write_text("[mysqld]\n!include nonexist.cnf\n")
    note, nothing = read_base_file(file, builds.MYSQL57, MYSQL57).notes
    assert nothing.endswith("the file sets nothing for this server: its defaults hold")
    assert note.startswith(f"{file}:2: nonexist.cnf cannot be read (No such file or directory)")


def test_memory_that_holds_no_pool_is_refused_and_the_least_that_is_named_is_taken(tmp_path: Path) -> None:
    settings = {**PRODUCTION, "key_buffer_size": 64 << 20}
    with pytest.raises(UsageError, match=r"10 MiB of memory is too little") as caught:
        fit_here(settings, MYSQL57, root(tmp_path), memory="10M")
    least = re.search(r"--memory (\d+M) or more", caught.value.hint or "")
    assert least
    assert fit_here(settings, MYSQL57, root(tmp_path), memory=least[1]).settings["innodb_buffer_pool_size"]
