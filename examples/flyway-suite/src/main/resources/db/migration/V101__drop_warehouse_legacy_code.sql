ALTER TABLE warehouse DROP COLUMN legacy_code;
