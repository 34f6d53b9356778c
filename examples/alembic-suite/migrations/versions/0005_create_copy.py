"""Create copy."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE copy (id INT AUTO_INCREMENT PRIMARY KEY, book_id INT NOT NULL,"
        " shelf_mark VARCHAR(20) NOT NULL,"
        " FOREIGN KEY (book_id) REFERENCES book (id)) DEFAULT CHARSET utf8mb4"
    )
