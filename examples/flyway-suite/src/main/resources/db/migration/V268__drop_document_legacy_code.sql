ALTER TABLE document DROP COLUMN legacy_code;
