"""The shipped example and the SQL in the guide are what they say."""

from pathlib import Path

from flushlab.workload.parse import build_workload, fingerprint, settled_name
from flushlab.workload.sql import TxnWorkload
from flushlab.workload.txn.file import PARAMETERS, parse_txn

GUIDES = Path(__file__).parents[4] / "docs" / "how-to"


def test_the_example_is_read() -> None:
    workload = build_workload("txn:order-entry.toml", {"threads": 3}, folder=GUIDES)
    assert isinstance(workload, TxnWorkload)
    assert [one.weight for one in workload.spec.transactions] == [45, 45, 10]
    assert (workload.threads, workload.database) == (3, "shop")


def test_the_guides_sql_is_read_and_its_table_has_every_type() -> None:
    page = (GUIDES / "transactions.md").read_text(encoding="utf-8")
    sql = page.partition("```sql\n")[2].partition("```")[0]
    file = parse_txn(sql, path="stock.sql")
    assert [(one.name, one.weight, one.explicit) for one in file.spec.transactions] == [
        *(("move", 3, True), ("look", 1, False)),
    ]
    assert all(f"`{kind}`" in page for kind in PARAMETERS)


def test_a_campaign_sees_when_a_file_or_its_setup_changes(tmp_path: Path) -> None:
    file, setup = tmp_path / "a.toml", tmp_path / "setup.sql"
    setup.write_text("CREATE TABLE t (a INT);")
    text = 'setup_file = "setup.sql"\n[transaction.t]\nstatements = ["UPDATE t SET a = 1"]\n'
    file.write_text(text)

    def seen() -> str:
        return fingerprint(build_workload(f"txn:{file}", {}))

    first = seen()
    assert seen() == first
    file.write_text(text.replace("a = 1", "a = 2"))
    assert seen() != first
    file.write_text(text)
    assert seen() == first
    setup.write_text("CREATE TABLE t (a BIGINT);")
    assert seen() != first


def test_a_stored_request_names_the_file_absolutely() -> None:
    assert settled_name("txn:orders.toml") == f"txn:{Path('orders.toml').absolute()}"
