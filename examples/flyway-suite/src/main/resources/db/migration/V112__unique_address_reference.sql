ALTER TABLE address ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_address_reference ON address (reference);
