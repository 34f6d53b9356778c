ALTER TABLE wishlist_item DROP COLUMN legacy_code;
