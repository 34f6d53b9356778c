ALTER TABLE invoice ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_invoice_reference ON invoice (reference);
