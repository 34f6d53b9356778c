CREATE INDEX ix_category_name ON category (name, status);
