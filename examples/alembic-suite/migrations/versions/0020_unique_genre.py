"""Unique genre."""

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_index("ux_genre_name", "genre", ["name"], unique=True)
