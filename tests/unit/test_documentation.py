"""Every link of the documentation resolves, every page is in the navigation, every command line parses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import flushlab
from flushlab.cli.app import make_app
from flushlab.errors import UsageError
from tests.unit.documents import DOCS, PAGES, ROOT, SITE, Line, anchors, command_lines

LINES = list(command_lines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_resolves(page: Path) -> None:
    for link in SITE["links"](page.read_text(encoding="utf-8")):
        if not SITE["local"](link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if DOCS in page.parents:
            assert target.is_file(), f"{link}: the site has no page for a folder"
        if anchor:
            assert target.suffix == ".md", link
            assert anchor in anchors(target), link


def test_raw_records_are_small_and_name_no_folder_of_the_machine() -> None:
    files = sorted((DOCS / "data").iterdir())
    assert sum(file.stat().st_size for file in files) < 300_000
    for file in files:
        assert re.search(rb"/(?:home|root|work|tmp)/", file.read_bytes()) is None, file.name


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", navigation, re.M)
    assert len(listed) == len(set(listed))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    reached_from_a_list = {page for page in pages if re.match(r"decisions/\d|results/reports/[a-z]", page)}
    assert set(listed) == pages - reached_from_a_list


@pytest.mark.parametrize("folder", ["decisions", "results/reports"])
def test_lists_of_pages_are_complete(folder: str) -> None:
    readme = DOCS / folder / "README.md"
    linked = {link for link in SITE["links"](readme.read_text(encoding="utf-8")) if "/" not in link}
    assert {page.name for page in readme.parent.glob("*.md")} - {"README.md"} <= linked


@pytest.mark.parametrize("line", LINES, ids=str)
def test_every_command_line_parses(line: Line) -> None:
    context = make_app().make_context("flushlab", list(line.words))
    words = [*context._protected_args, *context.args]
    while words:
        group = context.command
        assert hasattr(group, "resolve_command")
        name, found, words = group.resolve_command(context, words)
        if {"-h", "--help"} & {*words}:
            return
        context = found.make_context(name, words, parent=context)
        words = [*context._protected_args, *context.args] if hasattr(found, "resolve_command") else []


def test_command_lines_are_found() -> None:
    assert len(LINES) > 100
    with pytest.raises(UsageError, match="no such option: --secnds"):
        test_every_command_line_parses(Line("x.md", ("tune", "--secnds", "2"), "", False))


def test_a_link_out_of_the_pages_leads_to_a_copy(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "how-to").mkdir(parents=True)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "a.toml").write_text("x = 1\n")
    (docs / "how-to" / "page.md").write_text("[plan](../../plans/a.toml) [other](b.md) [site](https://x.org)")
    SITE["stage"](docs, tmp_path, tmp_path / "out")
    staged = (tmp_path / "out" / "how-to" / "page.md").read_text()
    assert staged == "[plan](../files/plans/a.toml.txt) [other](b.md) [site](https://x.org)"
    assert (tmp_path / "out" / "files" / "plans" / "a.toml.txt").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/css">', 1),
        ("@font-face { src: url(https://fonts.example/x.woff2) }", 1),
        ('<a href="https://example.org">text</a> <img src="../x.png">', 0),
    ],
)
def test_pages_that_would_load_from_other_hosts_are_found(tmp_path: Path, text: str, found: int) -> None:
    (tmp_path / "x.html").write_text(text)
    assert len(SITE["loaded_from_elsewhere"](tmp_path)) == found


def test_what_users_import_is_documented() -> None:
    public = [name for name in flushlab.__all__ if not name.startswith("_")]
    assert [name for name in public if not getattr(flushlab, name).__doc__] == []


def test_protocols_are_documented() -> None:
    """Whoever writes a further kind reads what it has to do."""
    protocols = [
        node
        for file in (ROOT / "python/flushlab").rglob("*.py")
        if "Protocol" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
    ]
    assert len(protocols) > 3
    assert [each.name for each in protocols if each.name[0] != "_" and ast.get_docstring(each) is None] == []
