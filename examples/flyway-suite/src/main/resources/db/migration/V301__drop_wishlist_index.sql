DROP INDEX ix_wishlist_name ON wishlist;
