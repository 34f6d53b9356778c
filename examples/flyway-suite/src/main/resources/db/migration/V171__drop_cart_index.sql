DROP INDEX ix_cart_name ON cart;
