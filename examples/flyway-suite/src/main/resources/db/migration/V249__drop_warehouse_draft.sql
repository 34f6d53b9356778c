ALTER TABLE warehouse DROP COLUMN is_draft;
