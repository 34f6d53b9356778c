ALTER TABLE stock DROP COLUMN legacy_code;
