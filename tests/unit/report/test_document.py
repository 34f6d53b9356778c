"""One document in a terminal, as Markdown and as a page."""

from __future__ import annotations

from flushlab.report import html, markdown
from flushlab.report.document import Cell, Code, Document, Line, Section, Table, named
from tests.golden.test_reports import text_of
from tests.loading import loaded_by

WIDE = Table(
    ("arm", "ratio", "interval", "verdict", "p99 ratio", "rows/s"),
    (
        (
            *named("a", "1.62×", "1.55 – 1.70", small="what it is"),
            Cell("faster"),
            Cell("1.20×", "num", "1.05 – 1.37", "1.20× lower p99 latency [1.05, 1.37]"),
            Cell("14,580", "num", "p99 2.31 ms"),
        ),
        (Cell("sync_binlog=0\ninnodb_doublewrite=OFF", "code"),),
        (*named("a name that takes more columns than a table has for names", "1.01×", ""), Cell("slower")),
    ),
    "A caption",
)


def of(*sections: Section, title: str = "") -> Document:
    return Document("tune", "The answer.", sections=sections, title=title)


def lines_of(*sections: Section, full: bool = False) -> list[str]:
    return text_of(of(*sections), full=full).splitlines()[2:]


def test_columns_without_room_stand_below_their_row_in_words_of_their_own() -> None:
    assert lines_of(Section("x", "Results", tables=(WIDE,))) == [
        "Results",
        "A caption",
        "arm                             ratio     interval  verdict            p99 ratio",
        "a                               1.62×  1.55 – 1.70  faster   1.20× (1.05 – 1.37)",
        "  what it is",
        "  rows/s 14,580 (p99 2.31 ms)",
        "  sync_binlog=0",
        "  innodb_doublewrite=OFF",
        "a name that takes more columns than a table has for names",
        "                                1.01×               slower",
    ]
    name = Cell("innodb_flush_log_at_trx_commit=2", "name")
    row = (name, *WIDE.rows[0][1:3], Cell("no difference found"), *WIDE.rows[0][4:])
    shown = lines_of(Section("x", "Results", tables=(WIDE._replace(rows=(row,)),)))
    assert shown[4:] == [
        "  1.20× lower p99 latency [1.05, 1.37]; rows/s 14,580 (p99 2.31 ms)",
    ]


def test_a_column_without_a_word_is_not_shown() -> None:
    assert lines_of(Section("x", "Arms", tables=(Table((), ((Cell("A", "name"), Cell("")),)),))) == [
        "Arms",
        "A",
    ]


def test_texts_share_the_room_that_figures_leave() -> None:
    table = Table(("when", "before", "after"), ((Cell("the power fails"), *[Cell("word " * 20)] * 2),))
    shown = lines_of(Section("x", "Guarantees", tables=(table,)))
    assert max(map(len, shown)) <= 80
    assert shown[2].startswith("the power fails  word word")
    assert sum(line.count("word") for line in shown) == 40


def test_a_short_form_stands_for_a_section_unless_all_is_asked_for() -> None:
    sections = (
        Section("a", "Long", lines=(Line("a fact", "SELECT 1"),), short=("in short",)),
        Section("b", "Hidden", texts=("hidden",), short=()),
        Section("c", "Warnings", notes=("hot",), short=("warning: hot",)),
    )
    assert lines_of(*sections) == ["in short", "warning: hot"]
    full = lines_of(*sections, full=True)
    assert full[:3] == ["Long", "  - a fact", "    SELECT 1"] and "hidden" in full


def test_a_terminal_shows_commands_whole_and_no_files() -> None:
    command = "mysql --defaults-file=/etc/mysql/of-the-nightly-import.cnf < " + "x" * 80
    code = (
        Code(command, "1. Do it:", "always"),
        Code("[mysqld]", "my.cnf", "page"),
        Code("SET", "rollback.sql"),
    )
    assert lines_of(Section("todo", "What to do", code=code)) == ["What to do", "1. Do it:", f"   {command}"]
    page = html.render(of(Section("todo", "What to do", code=code)))
    assert "<p>my.cnf</p>" in page and "<summary>rollback.sql</summary>" in page


def test_markdown_is_a_table_of_all_columns_and_marks_nothing_that_somebody_wrote() -> None:
    hostile = Section(
        "x", "<b>", tables=(WIDE,), lines=(Line("a|b `c`", "x ` | y"),), code=(Code("```\nend"),)
    )
    text = markdown.render(of(hostile, title="[link](http://x)"))
    assert (
        "| a (what it is) | 1.62× | 1.55 – 1.70 | faster | 1.20× (1.05 – 1.37) | 14,580 (p99 2.31 ms) |"
        in text
    )
    assert "|---|--:|--:|---|--:|--:|" in text
    assert r"### \<b\>" in text and r"\[link\](http://x)" in text
    assert r"- a\|b \`c\`: `` x ` | y ``" in text
    assert "````\n```\nend\n````" in text
    assert text.splitlines()[-1].startswith("Made by flushlab tune ")


def test_terminal_and_markdown_load_no_matplotlib() -> None:
    reports = "from flushlab.report import campaign, probe, doctor, terminal, markdown"
    assert "matplotlib" not in loaded_by(reports)[0]
