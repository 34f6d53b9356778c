CREATE INDEX ix_cart_name ON cart (name, status);
