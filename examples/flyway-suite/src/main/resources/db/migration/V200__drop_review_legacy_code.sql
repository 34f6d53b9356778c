ALTER TABLE review DROP COLUMN legacy_code;
