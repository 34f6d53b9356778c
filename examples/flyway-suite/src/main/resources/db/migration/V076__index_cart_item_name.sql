CREATE INDEX ix_cart_item_name ON cart_item (name, status);
