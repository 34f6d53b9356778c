"""Create fee."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE fee (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL)"
        " DEFAULT CHARSET utf8mb4"
    )
