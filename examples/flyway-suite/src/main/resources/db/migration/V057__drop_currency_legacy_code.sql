ALTER TABLE currency DROP COLUMN legacy_code;
