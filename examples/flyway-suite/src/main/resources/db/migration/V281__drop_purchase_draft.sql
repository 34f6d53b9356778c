ALTER TABLE purchase DROP COLUMN is_draft;
