ALTER TABLE employee DROP COLUMN is_draft;
