ALTER TABLE address DROP COLUMN is_draft;
