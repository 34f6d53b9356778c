ALTER TABLE role DROP COLUMN legacy_code;
