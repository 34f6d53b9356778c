ALTER TABLE employee DROP COLUMN legacy_code;
