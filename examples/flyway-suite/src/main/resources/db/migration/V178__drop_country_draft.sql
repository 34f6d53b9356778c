ALTER TABLE country DROP COLUMN is_draft;
