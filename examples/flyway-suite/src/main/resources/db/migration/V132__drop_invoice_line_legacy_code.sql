ALTER TABLE invoice_line DROP COLUMN legacy_code;
