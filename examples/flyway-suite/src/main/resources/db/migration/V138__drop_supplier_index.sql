DROP INDEX ix_supplier_name ON supplier;
