ALTER TABLE purchase DROP COLUMN legacy_code;
