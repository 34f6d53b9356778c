from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from library.lending import LOAN_DAYS, MOST_LOANS, NotPossible, add_book, give_back, join, lend

DAY = dt.date(2024, 2, 1)


def test_a_loan_is_due_after_four_weeks(db: Connection) -> None:
    loan = lend(db, join(db, "Ada"), add_book(db, "Dune", "fantasy"), DAY)
    due = db.scalar(text("SELECT due_on FROM loan WHERE id = :l"), {"l": loan})
    assert due == dt.date(2024, 2, 29)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_each_copy_is_lent_once(db: Connection, copies: int) -> None:
    book = add_book(db, "Dune", "fantasy", copies)
    for number in range(copies):
        lend(db, join(db, f"member {number}"), book, DAY)
    with pytest.raises(NotPossible, match="all copies"):
        lend(db, join(db, "one too many"), book, DAY)


def test_nobody_has_more_than_the_limit(db: Connection) -> None:
    member = join(db, "Ada")
    for number in range(MOST_LOANS):
        lend(db, member, add_book(db, f"Volume {number}", "history"), DAY)
    with pytest.raises(NotPossible, match="already"):
        lend(db, member, add_book(db, "One more", "history"), DAY)


@pytest.mark.parametrize(("late_days", "cents"), [(0, 0), (1, 20), (30, 600), (-5, 0)])
def test_late_days_cost(db: Connection, late_days: int, cents: int) -> None:
    loan = lend(db, join(db, "Ada"), add_book(db, "Dune", "fantasy"), DAY)
    assert give_back(db, loan, DAY + dt.timedelta(days=LOAN_DAYS + late_days)) == cents


def test_a_book_that_came_back_is_lent_again(db: Connection) -> None:
    book = add_book(db, "Dune", "fantasy")
    give_back(db, lend(db, join(db, "Ada"), book, DAY), DAY)
    assert lend(db, join(db, "Bo"), book, DAY)


def test_a_loan_comes_back_once(db: Connection) -> None:
    loan = lend(db, join(db, "Ada"), add_book(db, "Dune", "fantasy"), DAY)
    give_back(db, loan, DAY)
    with pytest.raises(NotPossible, match="not open"):
        give_back(db, loan, DAY)


def test_a_genre_must_be_there(db: Connection) -> None:
    with pytest.raises(NotPossible, match="no genre"):
        add_book(db, "Dune", "cooking")


@pytest.mark.parametrize("title", ["Ærø", "東京", "🦊 & co.", "a" * 200])
def test_a_title_is_kept_in_any_script(db: Connection, title: str) -> None:
    book = add_book(db, title, "poetry")
    assert db.scalar(text("SELECT title FROM book WHERE id = :b"), {"b": book}) == title


def test_an_address_belongs_to_one_member(db: Connection) -> None:
    join(db, "Ada")
    join(db, "Bo")
    with pytest.raises(IntegrityError):
        db.execute(text("UPDATE member SET email = 'a@example.org'"))


def test_a_lent_book_is_not_deleted(db: Connection) -> None:
    book = add_book(db, "Dune", "fantasy")
    lend(db, join(db, "Ada"), book, DAY)
    with pytest.raises(IntegrityError):
        db.execute(text("DELETE FROM copy WHERE book_id = :b"), {"b": book})


def test_nothing_of_other_tests_is_there(db: Connection) -> None:
    for table in ("book", "copy", "member", "loan", "reservation"):
        assert db.scalar(text(f"SELECT COUNT(*) FROM {table}")) == 0
