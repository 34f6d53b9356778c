ALTER TABLE message_template ADD COLUMN status VARCHAR(20) NOT NULL DEFAULT 'active';
