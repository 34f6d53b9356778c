ALTER TABLE message_template DROP COLUMN is_draft;
