from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from flushlab.pytest_plugin import Database
from library.lending import add_book, join


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_what_a_test_commits_others_see_until_it_ends(committing: Engine, name: str) -> None:
    with committing.begin() as db:
        assert db.scalar(text("SELECT COUNT(*) FROM member")) == 0, "the test before left nothing"
        join(db, name)
        add_book(db, name, "science")
    with committing.connect() as other:
        assert other.scalar(text("SELECT name FROM member")) == name


def test_a_reset_takes_back_rows_and_ids_and_leaves_the_seeds(
    committing: Engine, flushlab_database: Database
) -> None:
    with committing.begin() as db:
        join(db, "Ada")
    flushlab_database.reset()
    with committing.connect() as db:
        assert join(db, "Bo") == 1
        genres = db.scalars(text("SELECT name FROM genre ORDER BY name")).all()
        assert genres == ["crime", "fantasy", "history", "poetry", "science"]
        assert db.scalar(text("SELECT version_num FROM alembic_version")) == "0020"
