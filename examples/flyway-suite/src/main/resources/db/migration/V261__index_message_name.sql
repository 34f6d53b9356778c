CREATE INDEX ix_message_name ON message (name, status);
