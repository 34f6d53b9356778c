"""Create genre."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.execute(
        "CREATE TABLE genre (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL)"
        " DEFAULT CHARSET utf8mb4"
    )
