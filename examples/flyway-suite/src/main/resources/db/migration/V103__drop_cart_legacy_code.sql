ALTER TABLE cart DROP COLUMN legacy_code;
