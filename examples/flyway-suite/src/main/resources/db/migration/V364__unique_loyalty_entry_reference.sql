ALTER TABLE loyalty_entry ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_loyalty_entry_reference ON loyalty_entry (reference);
