from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flushlab.build import Build
from flushlab.campaign.arms import BoundArm
from flushlab.campaign.fleet import supplies
from flushlab.campaign.fleet.supplies import OPTION_FILE, PASSWORD, Asked, needed_by, request_at
from flushlab.campaign.request import BenchRequest, SeriesRequest, TuneRequest
from flushlab.errors import UsageError
from flushlab.fleet.content import ContentManifest
from flushlab.fleet.transfer import ABSOLUTE, TransferPlace
from flushlab.spec.kinds import BenchSpec
from flushlab.spec.parts import BaseSpec, DataSpec, WorkloadSpec
from tests.unit.builds import MARIADB
from tests.unit.report.campaigns import series_request, tune_request

ROOT = "/home2/content/files-x"
SECRET = "planted-5be1"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build of the requests, which is outside flushlab's home."""
    here = [msgspec.structs.replace(MARIADB, id=one.build_id) for one in (tune_request(), series_request())]

    def builds() -> list[Build]:
        return here

    monkeypatch.setattr(supplies, "list_builds", builds)


def tuning(folder: Path, workload: str, **options: Any) -> TuneRequest:
    request = tune_request()
    spec = msgspec.structs.replace(request.spec, workload=WorkloadSpec(name=workload, options=options))
    return msgspec.structs.replace(request, spec=spec, folder=str(folder))


def files_in(request: Asked) -> ContentManifest:
    (found,) = [one for one in needed_by(request).manifests if one.kind == "files"]
    return found


def below(folder: Path, manifest: ContentManifest) -> dict[str, str]:
    """The files of a manifest in a folder, and why they stay."""
    inside = str(folder).removeprefix("/")
    return {
        one.path.removeprefix(f"{inside}/"): one.stays
        for one in manifest.files
        if one.path.startswith(inside)
    }


def there(request: Asked, root: str = ROOT) -> Any:
    """The request as a machine gets it whose files are below another root."""
    needed = needed_by(request)
    places = [TransferPlace(root=root, key={"dataset": "there"}) for _ in needed.manifests]
    return request_at(request, needed, places)


def test_a_build_outside_the_home_is_named_and_not_sent() -> None:
    needed = needed_by(tune_request())
    assert not [one for one in needed.manifests if one.kind == "build"]
    assert [build.mysqld for build, _ in needed.builds] == [MARIADB.mysqld]


def test_a_command_gets_the_files_that_it_names_below_another_root(tmp_path: Path) -> None:
    for name in ("load.sh", "in.sql", "other.sql"):
        (tmp_path / name).write_text("SELECT 1;\n")
    request = tuning(tmp_path, f"command: sh ./load.sh {tmp_path}/in.sql --x={tmp_path}/in.sql /bin/true")
    assert below(tmp_path, files_in(request)) == {"load.sh": "", "in.sql": ""}
    found = there(request)
    assert found.folder == f"{ROOT}{tmp_path}"
    moved = f"{ROOT}{tmp_path}/in.sql"
    assert found.spec.workload.name == f"command: sh ./load.sh {moved} --x={moved} /bin/true"


def test_a_file_that_a_command_in_quotes_names_is_sent_and_a_long_program_is_none(tmp_path: Path) -> None:
    (tmp_path / "in.sql").write_text("SELECT 1;\n")
    program = "print(1);" * 40
    request = tuning(tmp_path, f"command: sh -c 'python3 -c \"{program}\" <{tmp_path}/in.sql'")
    assert below(tmp_path, files_in(request)) == {"in.sql": ""}
    moved = f"{ROOT}{tmp_path}/in.sql"
    assert there(request).spec.workload.name == f"command: sh -c 'python3 -c \"{program}\" <{moved}'"


def test_a_file_whose_name_stands_in_quotes_is_named_below_the_root_in_these_quotes(tmp_path: Path) -> None:
    (tmp_path / "load it.sh").write_text("true\n")
    found = there(tuning(tmp_path, f"command: sh '{tmp_path}/load it.sh'"))
    assert found.spec.workload.name == f"command: sh '{ROOT}{tmp_path}/load it.sh'"


def test_a_script_and_a_file_of_transactions_with_its_setup(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    (tmp_path / "setup.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\n")
    (tmp_path / "sub" / "b.toml").write_text(
        'database = "d"\nsetup_file = "../setup.sql"\n\n[transaction.t]\nstatements = ["DELETE FROM t"]\n'
    )
    base = BoundArm(name="base", workload=WorkloadSpec(name=f"sql:{tmp_path}/a.sql"), workload_digest="x")
    arm = BoundArm(name="arm", workload=WorkloadSpec(name="txn:sub/b.toml"), workload_digest="y")
    off = BoundArm(name="off", outcome="not_in_version", workload=WorkloadSpec(name="sql:gone.sql"))
    request = series_request(base=base, arms=(arm, off), folder=str(tmp_path))
    assert below(tmp_path, files_in(request)) == {"a.sql": "", "sub/b.toml": "", "setup.sql": ""}
    found: SeriesRequest = there(request)
    assert found.base.workload.name == f"sql:{ROOT}{tmp_path}/a.sql"
    assert [one.workload.name for one in found.arms] == ["txn:sub/b.toml", "sql:gone.sql"]
    assert found.folder == f"{ROOT}{tmp_path}"
    assert {arm.workload_digest for arm in (found.base, *found.arms)} == {""}, "the files were compared"


def test_files_at_the_same_path_leave_the_request_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "load.sh").write_text("true\n")
    request = tuning(tmp_path, "command: sh load.sh")
    there = request_at(request, needed_by(request), [TransferPlace(root="/")])
    assert isinstance(there, TuneRequest)
    assert there.spec.server.server == request.build_id
    assert there == msgspec.structs.replace(request, spec=there.spec)
    assert there.spec.workload == request.spec.workload


def test_what_holds_a_password_stays(tmp_path: Path) -> None:
    (tmp_path / "load.sh").write_text(f"MYSQL_PWD={SECRET} mysql\n")
    (tmp_path / "my.cnf").write_text("[client]\nuser=me\n")
    manifest = files_in(tuning(tmp_path, "command: sh load.sh --defaults-file=my.cnf"))
    assert below(tmp_path, manifest) == {"load.sh": PASSWORD, "my.cnf": OPTION_FILE}
    assert SECRET.encode() not in msgspec.json.encode(manifest)


def test_a_setup_by_an_absolute_path_stays(tmp_path: Path) -> None:
    (tmp_path / "setup.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY);\n")
    (tmp_path / "b.toml").write_text(
        f'database = "d"\nsetup_file = "{tmp_path}/setup.sql"\n\n'
        '[transaction.t]\nstatements = ["DELETE FROM t"]\n'
    )
    manifest = files_in(tuning(tmp_path, "txn:b.toml"))
    assert below(tmp_path, manifest) == {"b.toml": "", "setup.sql": ABSOLUTE}


def test_a_command_line_with_a_password_is_refused_without_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has a password in it") as raised:
        needed_by(tuning(tmp_path, f"command: mysql --password={SECRET} -e 'SELECT 1'"))
    assert SECRET not in str(raised.value)


def test_a_data_set_is_where_the_machine_has_it(tmp_path: Path) -> None:
    (tmp_path / "dump.sql").write_text("CREATE DATABASE d;\n")
    request = tune_request()
    spec = msgspec.structs.replace(request.spec, data=DataSpec(dataset=str(tmp_path / "dump.sql")))
    found = there(msgspec.structs.replace(request, spec=spec, dataset_key={"dataset": "here"}))
    assert found.spec.data.dataset == f"{ROOT}/dump.sql"
    assert found.dataset_key == {"dataset": "there"}


def test_a_run_on_each_machine_gets_its_files_and_data_there(tmp_path: Path) -> None:
    for name in ("a.sql", "dump.sql", "my.cnf"):
        (tmp_path / name).write_text("SELECT 1;\n")
    spec = BenchSpec(
        workload=WorkloadSpec(name=f"sql:{tmp_path}/a.sql"),
        data=DataSpec(dataset=str(tmp_path / "dump.sql")),
        base=BaseSpec(base=str(tmp_path / "my.cnf")),
    )
    asked = BenchRequest(spec=spec, build_id=tune_request().build_id, folder=str(tmp_path))
    needed = needed_by(asked)
    assert [build.id for build, _ in needed.builds] == [asked.build_id]
    assert below(tmp_path, files_in(asked)) == {"a.sql": "", "my.cnf": OPTION_FILE}
    found: BenchSpec = there(asked).spec
    assert found.server.server == asked.build_id
    assert found.workload.name == f"sql:{ROOT}{tmp_path}/a.sql"
    assert found.data.dataset == f"{ROOT}/dump.sql"
    assert found.base.base == f"{ROOT}{tmp_path}/my.cnf"


def test_an_option_file_of_any_name_stays(tmp_path: Path) -> None:
    (tmp_path / "server.conf").write_text("[mysqld]\n")
    spec = BenchSpec(base=BaseSpec(base=str(tmp_path / "server.conf")))
    asked = BenchRequest(spec=spec, build_id=tune_request().build_id, folder=str(tmp_path))
    assert below(tmp_path, files_in(asked)) == {"server.conf": OPTION_FILE}


def test_keys_and_logs_of_a_data_directory_stay(tmp_path: Path) -> None:
    folder = tmp_path / "datadir"
    (folder / "d").mkdir(parents=True)
    for name in ("ibdata1", "server-key.pem", "auto.cnf", "mysqld-auto.cnf", "d/t.ibd"):
        (folder / name).write_text(SECRET)
    request = tune_request()
    spec = msgspec.structs.replace(request.spec, data=DataSpec(dataset=str(folder)))
    found = needed_by(msgspec.structs.replace(request, spec=spec))
    (manifest,) = [one for one in found.manifests if one.kind == "data"]
    assert [one.path for one in manifest.files] == ["datadir/d/t.ibd", "datadir/ibdata1"]
