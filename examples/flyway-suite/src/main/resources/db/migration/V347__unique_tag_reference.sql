ALTER TABLE tag ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_tag_reference ON tag (reference);
