"""Seed genre."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for name in ("crime", "fantasy", "history", "poetry", "science"):
        op.execute(f"INSERT INTO genre (name) VALUES ('{name}')")
