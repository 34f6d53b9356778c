ALTER TABLE price ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_price_reference ON price (reference);
