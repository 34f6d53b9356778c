CREATE INDEX ix_loyalty_entry_name ON loyalty_entry (name, status);
