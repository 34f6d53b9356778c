ALTER TABLE campaign DROP COLUMN legacy_code;
