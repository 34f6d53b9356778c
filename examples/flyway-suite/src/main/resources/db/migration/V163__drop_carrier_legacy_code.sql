ALTER TABLE carrier DROP COLUMN legacy_code;
