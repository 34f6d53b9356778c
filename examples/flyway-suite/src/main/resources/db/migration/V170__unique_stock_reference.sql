ALTER TABLE stock ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_stock_reference ON stock (reference);
