CREATE INDEX ix_message_template_name ON message_template (name, status);
