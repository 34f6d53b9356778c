ALTER TABLE loyalty_account DROP COLUMN legacy_code;
