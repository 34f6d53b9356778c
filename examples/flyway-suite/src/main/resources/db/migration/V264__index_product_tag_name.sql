CREATE INDEX ix_product_tag_name ON product_tag (name, status);
