ALTER TABLE department DROP COLUMN is_draft;
