CREATE INDEX ix_payment_name ON payment (name, status);
