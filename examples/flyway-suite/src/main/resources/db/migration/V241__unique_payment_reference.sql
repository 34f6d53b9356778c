ALTER TABLE payment ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_payment_reference ON payment (reference);
