ALTER TABLE tax_rate DROP COLUMN is_draft;
