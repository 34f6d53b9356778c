ALTER TABLE message ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_message_reference ON message (reference);
