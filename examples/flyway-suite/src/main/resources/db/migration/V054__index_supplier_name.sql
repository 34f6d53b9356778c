CREATE INDEX ix_supplier_name ON supplier (name, status);
