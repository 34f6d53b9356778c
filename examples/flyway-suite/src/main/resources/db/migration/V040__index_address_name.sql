CREATE INDEX ix_address_name ON address (name, status);
