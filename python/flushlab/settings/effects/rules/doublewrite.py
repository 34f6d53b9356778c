"""doublewrite: innodb_doublewrite=OFF, judged by the pages that were written twice.

Sound: the counter grows only where a page is put into the doublewrite buffer. The reverse, ON without
such pages, has honest reasons (pages that are new, temporary, or on a device with atomic writes) and is not
judged.
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
