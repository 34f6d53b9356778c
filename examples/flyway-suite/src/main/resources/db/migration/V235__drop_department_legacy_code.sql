ALTER TABLE department DROP COLUMN legacy_code;
