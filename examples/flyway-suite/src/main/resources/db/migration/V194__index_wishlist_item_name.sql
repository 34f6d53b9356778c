CREATE INDEX ix_wishlist_item_name ON wishlist_item (name, status);
