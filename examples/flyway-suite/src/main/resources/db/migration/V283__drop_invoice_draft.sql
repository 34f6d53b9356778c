ALTER TABLE invoice DROP COLUMN is_draft;
