"""A lending library: books, members, loans."""
