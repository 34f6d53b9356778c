"""Files of rows: every format holds the same rows in their order, however they are made and compressed."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
import zstandard

from flushlab import _core
from flushlab.errors import NotWritable, UsageError
from flushlab.generate.export import Progress, export
from flushlab.generate.plan import FillPlan, parse_plan, read_plan
from tests.unit.generate.test_plan import SHOP

HOSTILE = r"""
[table.t]
rows = 300
[table.t.column]
id = { type = "INT", generator = "sequence" }
"a,`b\"" = { type = "CHAR(9)", generator = "text", length = [0, 6], null = 0.3, characters = "a\t\n\r\\\"'," }
raw = { type = "VARBINARY(9)", generator = "bytes", length = [0, 9] }
"""


@pytest.fixture
def hostile() -> FillPlan:
    return parse_plan(HOSTILE, path="p.toml")


def unpacked(file: Path) -> bytes:
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes())
    if file.suffix == ".zst":
        with file.open("rb") as stream:
            reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
            return reader.read()
    return file.read_bytes()


def escaped(field: str) -> str | None:
    """A field of LOAD DATA's default format."""
    if field == "\\N":
        return None
    out, letters = "", iter(field)
    for letter in letters:
        out += {"t": "\t", "n": "\n", "0": "\0", "\\": "\\"}[next(letters)] if letter == "\\" else letter
    return out


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "sql.zst"])
def test_files_are_the_rows_in_order_for_any_number_of_threads(tmp_path: Path, suffix: str) -> None:
    plan = read_plan("users", rows=30_000)
    contents = []
    for threads in (1, 3):
        file = tmp_path / f"{threads}.{suffix}"
        done = export(plan, file, threads=threads)
        assert (done.rows, done.bytes, done.files) == (30_000, file.stat().st_size, (str(file),))
        contents.append(unpacked(file))
    assert contents[0] == contents[1]
    if suffix == "csv":
        lines = contents[0].decode().splitlines()
        assert lines[0] == "id,email,username,password,user_type,created_at"
        assert [line.split(",")[0] for line in lines[1:]] == [str(n) for n in range(1, 30_001)]


def test_csv_and_tsv_hold_the_same_values_whatever_is_in_them(tmp_path: Path, hostile: FillPlan) -> None:
    export(hostile, tmp_path / "t.csv")
    export(hostile, tmp_path / "t.tsv")
    with (tmp_path / "t.csv").open(newline="") as stream:
        head, *rows = csv.reader(stream)
    assert head == ["id", 'a,`b"', "raw"]
    fields = [line.split("\t") for line in (tmp_path / "t.tsv").read_bytes().decode().split("\n")[:-1]]
    nulls = [row for row in fields if row[1] == "\\N"]
    assert 50 < len(nulls) < 130
    assert rows == [[escaped(field) or "" for field in row] for row in fields]


def test_a_statement_that_loads_a_file_names_what_is_not_plain(tmp_path: Path, hostile: FillPlan) -> None:
    (statement,) = export(hostile, tmp_path / "t.tsv").statements
    assert '(`id`, `a,``b"`, @c3) SET `raw` = UNHEX(@c3);' in statement
    (statement,) = export(hostile, tmp_path / "t.csv").statements
    assert "IGNORE 1 LINES" in statement


def test_sql_has_all_tables_parents_first_and_creates_them_if_asked(tmp_path: Path) -> None:
    plan = parse_plan(SHOP, path="p.toml")
    export(plan, tmp_path / "shop.sql", create=True)
    text = (tmp_path / "shop.sql").read_text()
    assert text.index("CREATE TABLE `orders`") < text.index("INSERT INTO `orders` (`id`, `note`) VALUES (1,")
    assert text.index("INSERT INTO `orders`") < text.index("CREATE TABLE `line`")
    assert _core.count_statements(text.encode()) == 6
    export(plan, tmp_path / "rows.sql")
    assert "CREATE" not in (tmp_path / "rows.sql").read_text()


def test_each_table_has_a_file_of_its_own_if_the_name_says_so(tmp_path: Path) -> None:
    plan = parse_plan(SHOP, path="p.toml")
    export(plan, tmp_path / "{table}.tsv")
    lines = {file.name: len(file.read_text().splitlines()) for file in tmp_path.iterdir()}
    assert lines == {"orders.tsv": 100, "line.tsv": 500}
    with pytest.raises(
        UsageError, match=r"a \.csv file holds one table, and the plan has orders, line"
    ) as raised:
        export(plan, tmp_path / "shop.csv.gz")
    assert str(raised.value.hint).endswith("{table}.csv.gz")


def test_a_name_that_does_not_say_how_and_a_folder_that_is_not_there_are_errors(tmp_path: Path) -> None:
    plan = read_plan("users", rows=1)
    for name in ("users", "users.xlsx", "users.gz"):
        with pytest.raises(UsageError, match="does not say what to write"):
            export(plan, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotWritable, match="cannot be written"):
        export(plan, tmp_path / "no" / "users.csv")


def test_progress_ends_with_all_rows(tmp_path: Path) -> None:
    seen: list[Progress] = []
    export(read_plan("users", rows=20_000), tmp_path / "users.csv", show=seen.append)
    assert len(seen) > 1
    assert [far.rows for far in seen] == sorted(far.rows for far in seen)
    assert (seen[-1].rows, seen[-1].all_rows) == (20_000, 20_000)


def test_an_export_that_is_stopped_leaves_nothing_and_an_older_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text("older")

    def stop(far: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(read_plan("users", rows=100_000), file, show=stop)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("users.csv", "older")]


def test_an_export_touches_no_other_file_of_the_user(tmp_path: Path) -> None:
    theirs = tmp_path / "t.csv.part"
    theirs.write_text("theirs")
    export(read_plan("users", rows=10), tmp_path / "t.csv")
    assert theirs.read_text() == "theirs"
    assert {file.name for file in tmp_path.iterdir()} == {"t.csv", "t.csv.part"}


def test_a_function_in_python_gives_values_and_its_time_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine_of_this_test.py").write_text(
        "def names(rows):\n    return [None if n % 3 == 2 else n if n % 3 else f'it\\'s {n}' for n in rows]\n"
        "def few(rows):\n    return [1]\n"
        "def broken(rows):\n    return [1 / n for n in rows]\n"
    )
    column = 'c = { type = "TEXT", generator = "python", function = "%s" }'
    text = f"[table.t]\nrows = 2500\n[table.t.column]\n{column}"

    def plan(function: str) -> FillPlan:
        return parse_plan(text % f"mine_of_this_test:{function}", path=str(tmp_path / "p.toml"))

    done = export(plan("names"), tmp_path / "t.tsv", threads=2)
    lines = (tmp_path / "t.tsv").read_text().splitlines()
    assert lines == [r"\N" if n % 3 == 2 else str(n) if n % 3 else f"it's {n}" for n in range(2500)]
    assert done.python_seconds > 0
    assert "SET `c` = NULLIF(@c1, '')" in export(plan("names"), tmp_path / "t.csv").statements[0]
    with pytest.raises(UsageError, match="few gave 1 values for 1000 rows"):
        export(plan("few"), tmp_path / "t.tsv")
    with pytest.raises(UsageError, match="broken: ZeroDivisionError"):
        export(plan("broken"), tmp_path / "t.tsv")
    with pytest.raises(UsageError, match=r"p\.toml:4:.*nothing is no function"):
        plan("nothing")
