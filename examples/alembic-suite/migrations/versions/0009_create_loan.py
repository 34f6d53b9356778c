"""Create loan."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE loan (id INT AUTO_INCREMENT PRIMARY KEY, member_id INT NOT NULL, copy_id INT NOT NULL,"
        " lent_on DATE NOT NULL, due_on DATE NOT NULL,"
        " FOREIGN KEY (member_id) REFERENCES member (id), FOREIGN KEY (copy_id) REFERENCES copy (id))"
        " DEFAULT CHARSET utf8mb4"
    )
