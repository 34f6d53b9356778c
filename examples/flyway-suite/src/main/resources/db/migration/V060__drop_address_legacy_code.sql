ALTER TABLE address DROP COLUMN legacy_code;
