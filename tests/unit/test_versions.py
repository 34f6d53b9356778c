import re
import tomllib
from pathlib import Path

from flushlab import __version__

ROOT = Path(__file__).parents[2]


def test_package_and_crates_have_one_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert cargo["workspace"]["package"]["version"] == __version__


def test_changelog_has_an_entry_for_this_version() -> None:
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_document_has_a_version_that_the_reference_names() -> None:
    def schemas(folder: str, ending: str) -> set[str]:
        files = (ROOT / folder).rglob(f"*{ending}")
        return {found for file in files for found in re.findall(r"\bflushlab\.[a-z-]+/\d+", file.read_text())}

    assert schemas("python/flushlab", ".py") == schemas("docs/reference", ".md")
