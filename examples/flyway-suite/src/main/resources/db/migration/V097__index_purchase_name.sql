CREATE INDEX ix_purchase_name ON purchase (name, status);
