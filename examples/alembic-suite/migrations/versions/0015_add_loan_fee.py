"""Add loan fee."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("loan", sa.Column("fee_cents", sa.Integer(), nullable=False, server_default="0"))
