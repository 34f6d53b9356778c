ALTER TABLE supplier_order_item ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_supplier_order_item_reference ON supplier_order_item (reference);
