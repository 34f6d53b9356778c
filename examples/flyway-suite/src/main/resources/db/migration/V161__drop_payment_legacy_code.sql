ALTER TABLE payment DROP COLUMN legacy_code;
