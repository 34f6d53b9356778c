ALTER TABLE stock DROP COLUMN is_draft;
