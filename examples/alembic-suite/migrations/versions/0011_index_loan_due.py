"""Index loan due."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_index("ix_loan_due_on", "loan", ["due_on", "returned_on"])
