ALTER TABLE message_template ADD COLUMN updated_at DATETIME NULL;
