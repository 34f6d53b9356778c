"""Unique shelf mark."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_index("ux_copy_shelf_mark", "copy", ["shelf_mark"], unique=True)
