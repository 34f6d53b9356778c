CREATE INDEX ix_invoice_name ON invoice (name, status);
