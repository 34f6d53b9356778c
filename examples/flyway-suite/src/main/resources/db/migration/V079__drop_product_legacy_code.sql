ALTER TABLE product DROP COLUMN legacy_code;
