ALTER TABLE wishlist DROP COLUMN legacy_code;
