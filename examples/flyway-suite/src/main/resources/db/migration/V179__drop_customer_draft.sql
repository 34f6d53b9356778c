ALTER TABLE customer DROP COLUMN is_draft;
