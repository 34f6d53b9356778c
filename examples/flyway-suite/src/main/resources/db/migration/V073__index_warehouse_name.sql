CREATE INDEX ix_warehouse_name ON warehouse (name, status);
