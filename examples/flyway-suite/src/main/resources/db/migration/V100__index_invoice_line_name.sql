CREATE INDEX ix_invoice_line_name ON invoice_line (name, status);
