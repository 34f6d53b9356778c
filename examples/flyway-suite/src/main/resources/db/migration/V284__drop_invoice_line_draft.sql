ALTER TABLE invoice_line DROP COLUMN is_draft;
