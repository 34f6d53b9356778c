ALTER TABLE category DROP COLUMN is_draft;
