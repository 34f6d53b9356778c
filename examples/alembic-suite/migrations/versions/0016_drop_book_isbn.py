"""Drop book isbn."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.drop_column("book", "isbn")
