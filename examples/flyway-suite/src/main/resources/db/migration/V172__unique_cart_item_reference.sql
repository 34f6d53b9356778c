ALTER TABLE cart_item ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_cart_item_reference ON cart_item (reference);
