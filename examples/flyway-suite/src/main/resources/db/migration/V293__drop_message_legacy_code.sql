ALTER TABLE message DROP COLUMN legacy_code;
