ALTER TABLE carrier DROP COLUMN is_draft;
