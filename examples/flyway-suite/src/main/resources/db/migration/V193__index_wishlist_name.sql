CREATE INDEX ix_wishlist_name ON wishlist (name, status);
