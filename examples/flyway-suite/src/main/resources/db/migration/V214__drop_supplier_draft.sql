ALTER TABLE supplier DROP COLUMN is_draft;
