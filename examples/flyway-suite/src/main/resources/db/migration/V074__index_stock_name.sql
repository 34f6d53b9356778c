CREATE INDEX ix_stock_name ON stock (name, status);
