"""Add fee cents."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("fee", sa.Column("cents", sa.Integer(), nullable=False, server_default="0"))
