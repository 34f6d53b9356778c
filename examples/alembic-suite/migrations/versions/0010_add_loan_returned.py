"""Add loan returned."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("loan", sa.Column("returned_on", sa.Date(), nullable=True))
