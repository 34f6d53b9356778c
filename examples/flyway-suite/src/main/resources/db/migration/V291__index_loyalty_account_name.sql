CREATE INDEX ix_loyalty_account_name ON loyalty_account (name, status);
