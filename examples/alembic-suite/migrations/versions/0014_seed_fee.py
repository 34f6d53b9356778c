"""Seed fee."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute("INSERT INTO fee (name, cents) VALUES ('late day', 20), ('lost book', 2500)")
