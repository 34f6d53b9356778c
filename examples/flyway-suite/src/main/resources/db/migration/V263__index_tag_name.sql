CREATE INDEX ix_tag_name ON tag (name, status);
