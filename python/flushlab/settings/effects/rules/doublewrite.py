"""doublewrite: innodb_doublewrite=OFF, judged by the pages that were written twice.

Sound: the counter grows only if a page enters the doublewrite buffer. The rule does not judge ON without such
pages: new pages, temporary pages and devices with atomic writes are legitimate reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

from flushlab.settings.effects.evidence import Evidence, Finding


def doublewritten(evidence: Evidence) -> Iterator[Finding]:
    """OFF, and pages that were written twice."""
    written = evidence.written("doublewrite")
    if written and evidence.is_set("innodb_doublewrite", "OFF"):
        yield Finding(
            setting="innodb_doublewrite",
            value="OFF",
            seen=f"{written:,} bytes were written to the doublewrite buffer",
        )
