"""Add member email."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("member", sa.Column("email", sa.String(200), nullable=True))
