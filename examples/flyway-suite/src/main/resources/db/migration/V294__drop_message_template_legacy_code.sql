ALTER TABLE message_template DROP COLUMN legacy_code;
