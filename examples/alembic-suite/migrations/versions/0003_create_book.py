"""Create book."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE book (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(200) NOT NULL, genre_id INT,"
        " isbn VARCHAR(20), FOREIGN KEY (genre_id) REFERENCES genre (id)) DEFAULT CHARSET utf8mb4"
    )
