ALTER TABLE loyalty_account ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_loyalty_account_reference ON loyalty_account (reference);
