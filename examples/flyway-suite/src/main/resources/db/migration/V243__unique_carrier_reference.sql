ALTER TABLE carrier ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_carrier_reference ON carrier (reference);
