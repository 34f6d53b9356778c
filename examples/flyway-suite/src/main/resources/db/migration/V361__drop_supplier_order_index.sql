DROP INDEX ix_supplier_order_name ON supplier_order;
