"""What members and librarians do; the caller commits."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Connection, text

LOAN_DAYS = 28
MOST_LOANS = 5


class NotPossible(Exception):
    """The library's rules say no."""


def join(db: Connection, name: str) -> int:
    """A new member's number."""
    return _insert(db, "INSERT INTO member (name) VALUES (:name)", name=name)


def add_book(db: Connection, title: str, genre: str, copies: int = 1) -> int:
    """A new book with its copies."""
    genre_id = db.scalar(text("SELECT id FROM genre WHERE name = :name"), {"name": genre})
    if genre_id is None:
        raise NotPossible(f"there is no genre {genre!r}")
    book = _insert(db, "INSERT INTO book (title, genre_id) VALUES (:t, :g)", t=title, g=genre_id)
    for number in range(1, copies + 1):
        _insert(db, "INSERT INTO copy (book_id, shelf_mark) VALUES (:b, :m)", b=book, m=f"{book}-{number}")
    return book


def lend(db: Connection, member: int, book: int, day: dt.date) -> int:
    """Lends a free copy; the loan's number."""
    open_loans = db.scalar(
        text("SELECT COUNT(*) FROM loan WHERE member_id = :m AND returned_on IS NULL"), {"m": member}
    )
    if (open_loans or 0) >= MOST_LOANS:
        raise NotPossible(f"member {member} has {MOST_LOANS} books already")
    copy = db.scalar(
        text(
            "SELECT c.id FROM copy c LEFT JOIN loan l ON l.copy_id = c.id AND l.returned_on IS NULL"
            " WHERE c.book_id = :b AND l.id IS NULL ORDER BY c.id LIMIT 1 FOR UPDATE"
        ),
        {"b": book},
    )
    if copy is None:
        raise NotPossible(f"all copies of book {book} are lent")
    return _insert(
        db,
        "INSERT INTO loan (member_id, copy_id, lent_on, due_on) VALUES (:m, :c, :day, :due)",
        m=member,
        c=copy,
        day=day,
        due=day + dt.timedelta(days=LOAN_DAYS),
    )


def give_back(db: Connection, loan: int, day: dt.date) -> int:
    """Takes a book back; the fee in cents."""
    due = db.scalar(text("SELECT due_on FROM loan WHERE id = :l AND returned_on IS NULL"), {"l": loan})
    if due is None:
        raise NotPossible(f"loan {loan} is not open")
    late_days = max(0, (day - due).days)
    fee_cents = late_days * int(db.scalar(text("SELECT cents FROM fee WHERE name = 'late day'")) or 0)
    db.execute(
        text("UPDATE loan SET returned_on = :day, fee_cents = :fee WHERE id = :l"),
        {"day": day, "fee": fee_cents, "l": loan},
    )
    return fee_cents


def _insert(db: Connection, sql: str, **values: object) -> int:
    return int(db.execute(text(sql), values).lastrowid)
