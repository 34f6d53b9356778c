ALTER TABLE category DROP COLUMN legacy_code;
