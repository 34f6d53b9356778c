CREATE INDEX ix_currency_name ON currency (name, status);
