CREATE INDEX ix_price_name ON price (name, status);
