ALTER TABLE purchase_item ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_purchase_item_reference ON purchase_item (reference);
