CREATE INDEX ix_customer_name ON customer (name, status);
