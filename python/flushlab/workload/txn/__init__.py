"""`txn:FILE`: the user's own transactions, in TOML or in SQL; each mistake with its line and column."""
