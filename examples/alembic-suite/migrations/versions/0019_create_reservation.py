"""Create reservation."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE reservation (id INT AUTO_INCREMENT PRIMARY KEY, member_id INT NOT NULL,"
        " book_id INT NOT NULL,"
        " FOREIGN KEY (member_id) REFERENCES member (id), FOREIGN KEY (book_id) REFERENCES book (id))"
        " DEFAULT CHARSET utf8mb4"
    )
