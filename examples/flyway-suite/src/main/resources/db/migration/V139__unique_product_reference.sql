ALTER TABLE product ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_product_reference ON product (reference);
