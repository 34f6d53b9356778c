CREATE INDEX ix_purchase_item_name ON purchase_item (name, status);
