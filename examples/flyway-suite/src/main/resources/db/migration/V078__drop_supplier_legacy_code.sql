ALTER TABLE supplier DROP COLUMN legacy_code;
