"""Create member."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE member (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(100) NOT NULL)"
        " DEFAULT CHARSET utf8mb4"
    )
