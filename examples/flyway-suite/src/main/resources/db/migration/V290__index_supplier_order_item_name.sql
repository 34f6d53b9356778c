CREATE INDEX ix_supplier_order_item_name ON supplier_order_item (name, status);
