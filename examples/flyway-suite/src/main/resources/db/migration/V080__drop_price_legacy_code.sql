ALTER TABLE price DROP COLUMN legacy_code;
