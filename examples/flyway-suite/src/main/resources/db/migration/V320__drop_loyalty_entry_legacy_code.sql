ALTER TABLE loyalty_entry DROP COLUMN legacy_code;
