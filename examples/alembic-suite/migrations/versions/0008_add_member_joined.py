"""Add member joined."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("member", sa.Column("joined_on", sa.Date(), nullable=True))
