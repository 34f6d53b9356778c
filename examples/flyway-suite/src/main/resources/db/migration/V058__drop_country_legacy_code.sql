ALTER TABLE country DROP COLUMN legacy_code;
