"""Unique member email."""

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_index("ux_member_email", "member", ["email"], unique=True)
