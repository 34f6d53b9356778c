ALTER TABLE cart_item DROP COLUMN legacy_code;
