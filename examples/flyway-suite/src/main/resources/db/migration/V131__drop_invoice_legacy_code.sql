ALTER TABLE invoice DROP COLUMN legacy_code;
