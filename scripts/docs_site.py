"""Builds the documentation site into target/docs-site/site/, strictly: `make docs`.

Zensical sees only its own folder. So docs/ is copied to target/docs; a link that leaves docs/ gets a copy of
its file as text, below files/. The build fails if a link or an anchor does not resolve, if a page is missing
from the navigation, or if a built page would load anything from another host.

.venv/bin/python scripts/docs_site.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STAGE = ROOT / "target" / "docs-site"
SITE = STAGE / "site"

FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$", re.M | re.S)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_OTHER_HOST = re.compile(r"https?:|//|mailto:")
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"?(?:https?:)?//[^\s\">]+"
    r"|<link\b(?![^>]*rel=\"?canonical)[^>]*\bhref=\"?(?:https?:)?//[^\s\">]+"
    r"|url\([\"']?(?:https?:)?//[^)]+|@import[^;]*//[^;]+"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FINDING = re.compile(r"^(?:Warning|Error): ([^\n]*)\n[^\n]*?\[ (\S+) \]", re.M)
_SEEN_AS_THEY_ARE = {".html", ".json", ".png", ".svg", ".txt", ".webp"}


def links(text: str) -> Iterator[str]:
    """The targets of the links of a page of Markdown, as written; code has none."""
    for found in _LINK.finditer(_CODE.sub("", FENCED.sub("", text))):
        yield found[2]


def local(link: str) -> bool:
    """Whether a link leads to a file of the repository."""
    return _OTHER_HOST.match(link) is None


def stage(docs: Path, root: Path, into: Path) -> None:
    """Copies a folder of pages; files outside of it to which pages link are copied below files/."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(docs, into)
    for page in sorted(docs.rglob("*.md")):

        def inside(found: re.Match[str], page: Path = page) -> str:
            link = found[2].partition("#")[0]
            target = (page.parent / link).resolve()
            if not local(found[2]) or not link or target.is_relative_to(docs.resolve()):
                return found[0]
            shown = target.relative_to(root.resolve()).as_posix()
            if target.suffix not in _SEEN_AS_THEY_ARE:
                shown += ".txt"
            copy = into / "files" / shown
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, copy)
            from_page = os.path.relpath(copy, (into / page.relative_to(docs)).parent)
            return f"{found[1]}{from_page}{found[3]}"

        text = page.read_text(encoding="utf-8")
        (into / page.relative_to(docs)).write_text(_LINK.sub(inside, text), encoding="utf-8")


def loaded_from_elsewhere(site: Path) -> list[str]:
    """What the pages and style sheets of a site would load from other hosts."""
    found = []
    for file in sorted((*site.rglob("*.html"), *site.rglob("*.css"))):
        for match in _LOADED.finditer(file.read_text(encoding="utf-8")):
            found.append(f"{file.relative_to(site)}: {match[0]}")
    return found


def _findings(printed: str) -> str:
    """One line per finding, of what Zensical draws over several; all it printed if there is none."""
    plain = _COLOURS.sub("", printed)
    findings = _FINDING.findall(plain)
    return "\n".join(f"docs/{place}: {message}" for message, place in findings) or plain


def main() -> int:
    """Builds; the exit code."""
    stage(DOCS, ROOT, STAGE / "docs")
    shutil.copyfile(ROOT / "mkdocs.yml", STAGE / "mkdocs.yml")
    shutil.rmtree(SITE, ignore_errors=True)
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [zensical, "build", "--clean", "--strict"],
        cwd=STAGE,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        sys.stderr.write(_findings(built.stdout) + "\n")
        return 1
    if elsewhere := loaded_from_elsewhere(SITE):
        sys.stderr.write("\n".join(("loaded from other hosts:", *elsewhere, "")))
        return 1
    sys.stdout.write(f"{SITE.relative_to(ROOT) / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
