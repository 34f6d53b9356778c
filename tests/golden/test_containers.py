"""The texts of `flushlab test --print-…`, compared with files; FLUSHLAB_UPDATE_GOLDEN=1 renews them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flushlab.advice import containers
from flushlab.advice.containers import Form

HERE = Path(__file__).parent
ENDINGS = {"compose": "yaml", "testcontainers": "java", "github-action": "yaml"}


@pytest.mark.parametrize("server", ["mysql@5.7", "mysql@8.0", "mariadb@11.8"])
@pytest.mark.parametrize("form", containers.TEMPLATES)
def test_text(form: Form, server: str) -> None:
    text = containers.render(form, containers.parse_image(server), database="app", command=["mvn", "verify"])
    file = HERE / f"{form}-{server}.{ENDINGS[form]}"
    if os.environ.get("FLUSHLAB_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()
