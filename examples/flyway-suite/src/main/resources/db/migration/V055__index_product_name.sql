CREATE INDEX ix_product_name ON product (name, status);
